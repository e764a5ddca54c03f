//! The fast bins of an arena: small blocks that were freed and not yet merged with their neighbours. glibc 2.43 has
//! none.

use super::lists::{Links, Listed};
use super::release::Release;
use crate::{Memory, Window};

const BINS: u64 = 10;

/// Adds the blocks in an arena's fast bins.
pub(super) fn find(memory: &dyn Memory, arena: u64, release: &Release, listed: &mut Listed) {
    if !release.fast_bins {
        return;
    }
    let mut window = Window::of_pages(memory);
    for bin in 0..BINS {
        let Some(first) = memory.word(arena + release.bins - 96 + 8 * bin) else { continue };
        let links = Links { mangled: release.mangled, points_at: 0 };
        listed.follow(&mut window, first, links, |size| size == 32 + 16 * bin);
    }
}
