//! The thread caches. In: the threads' pointers. Out: the blocks that the caches are in, and the blocks in their lists.
//! In all threads, the variable that points to the cache is at the same distance from the thread pointer: below it on x86-64, above it on
//! aarch64. The distance that most threads agree on is used.

use std::collections::BTreeMap;

use super::lists::{Links, Listed};
use super::marks::Marks;
use super::release::{Cache, Release};
use crate::{Memory, Window};

/// How far from the thread pointer the variable is looked for: first near, then further away. A program's own
/// thread-local variables lie between them.
const REACH: [u64; 4] = [4 << 10, 64 << 10, 1 << 20, 16 << 20];
/// The number of threads that are examined to find the distance.
const VOTERS: usize = 32;
/// The largest block of a thread cache, if a parameter allows large blocks.
const LARGEST: u64 = 8 << 20;
/// The number of lists that may begin with a wrong block, because their thread is changing them.
const MOVING: usize = 2;

/// The thread caches of a process.
#[derive(Debug, Default)]
pub(super) struct Caches {
    /// The blocks that contain the caches.
    pub own: Marks,
    /// The blocks in their lists.
    pub listed: Listed,
    /// The number of threads that should have a cache, as far as this is known.
    pub wanted: u64,
    /// The number of threads whose cache was read.
    pub found: u64,
}

/// Finds the caches of all threads whose pointer is known. `is_own` says whether an address is in this C library's memory.
pub(super) fn find(memory: &dyn Memory, release: &Release, is_own: &dyn Fn(u64) -> bool) -> Caches {
    let mut caches = Caches::default();
    let pointers: Vec<u64> = memory.threads().iter().filter_map(|thread| thread.pointer).collect();
    let mut window = Window::of_pages(memory);
    let distance =
        REACH.iter().find_map(|&reach| distance(memory, &mut window, &pointers, &release.cache, reach, is_own));
    let Some(distance) = distance else {
        // The first thread has allocated something. If it has ended, the others may have allocated nothing.
        let has_first = memory.threads().first().is_some_and(|first| first.pointer.is_some());
        caches.wanted = u64::from(has_first && !release.cache.at_first_free);
        return caches;
    };
    for pointer in pointers {
        let Some(at) = window.word(pointer.wrapping_add(distance)).filter(|&at| at != 0) else {
            continue;
        };
        caches.wanted += u64::from(!release.cache.at_first_free);
        if !is_cache(&mut window, at, &release.cache) {
            continue;
        }
        caches.found += 1;
        caches.wanted += u64::from(release.cache.at_first_free);
        caches.own.add(at - 16);
        let links = Links { mangled: release.mangled, points_at: 16 };
        for bin in 0..release.cache.bins {
            let Some(first) = window.word(at + release.cache.list(bin)) else { continue };
            caches.listed.follow(&mut window, first, links, |size| in_bin(bin, size));
        }
    }
    caches
}

/// What is added to a thread pointer.
fn distance(
    memory: &dyn Memory,
    window: &mut Window,
    pointers: &[u64],
    cache: &Cache,
    reach: u64,
    is_own: &dyn Fn(u64) -> bool,
) -> Option<u64> {
    let mut votes = BTreeMap::new();
    let mut words = Window::new(memory);
    for &pointer in pointers.iter().take(VOTERS) {
        let (mapping, reached) = (memory.mapping(pointer)?, memory.machine().processor.variables(pointer, reach));
        let (from, to) = (reached.start.max(mapping.from), reached.end.min(mapping.to));
        let resident = memory.pages().within(from, to).filter(|run| run.state.is_resident());
        for slot in resident.flat_map(|run| (run.from.next_multiple_of(8)..run.to).step_by(8)) {
            let Some(at) = words.word(slot) else { continue };
            if at % 16 == 0
                && memory.mapping(at).is_some_and(|one| one.writable)
                && is_cache(window, at, cache)
                && is_own(at)
            {
                *votes.entry(slot.wrapping_sub(pointer)).or_insert(0) += 1;
            }
        }
    }
    // If distances have equal votes, the nearest is used: a more distant word may be an old copy on the stack.
    let best =
        votes.into_iter().max_by_key(|&(distance, votes)| (votes, std::cmp::Reverse((distance as i64).unsigned_abs())));
    best.map(|(distance, _)| distance)
}

/// Whether a pointer leads to a block of a cache's size, and the cache's lists begin with blocks of their sizes.
fn is_cache(window: &mut Window, at: u64, cache: &Cache) -> bool {
    let Some(size) = at.checked_sub(8).and_then(|at| window.word(at)) else { return false };
    let size = size & !5;
    if !at.is_multiple_of(16) || (size != cache.block && size != cache.block + 16) {
        return false;
    }
    let mut wrong = 0;
    for bin in 0..cache.bins {
        let Some(first) = window.word(at + cache.list(bin)) else { return false };
        let size = |window: &mut Window| window.word(first.checked_sub(8)?);
        let fits = first == 0 || first % 16 == 0 && size(window).is_some_and(|size| in_bin(bin, size & !7));
        wrong += usize::from(!fits);
    }
    wrong <= MOVING
}

fn in_bin(bin: u64, size: u64) -> bool {
    if bin < 64 { size == 32 + 16 * bin } else { (32 + 16 * 64..=LARGEST).contains(&size) && size.is_multiple_of(16) }
}

impl Cache {
    /// The distance from a cache's start to one of its lists.
    fn list(&self, bin: u64) -> u64 {
        self.bins * self.count + 8 * bin
    }
}
