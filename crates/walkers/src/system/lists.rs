//! Follows a list of free blocks with one link each, which is a fast bin or a list of a thread cache. Marks the addresses of its blocks.

use super::marks::Marks;
use crate::Window;

/// The most blocks of a list. A longer list counts as broken.
const MOST: u64 = 1 << 24;

/// The format of a list's links.
#[derive(Clone, Copy, Debug)]
pub(super) struct Links {
    /// Whether a link is mangled with its own address.
    pub mangled: bool,
    /// The distance from a block's start to the address in a link to it: 0, or 16 if links have the address of the program's first byte.
    pub points_at: u64,
}

/// The blocks of lists.
#[derive(Debug, Default)]
pub(super) struct Listed {
    /// Their addresses.
    pub marks: Marks,
    /// Bytes of blocks.
    pub bytes: u64,
    /// The number of lists that do not end with null: a link leads to something else than a block of the list, or the list is too long.
    pub broken: u64,
}

impl Listed {
    /// Adds the blocks of a list. `fits` says whether a size belongs to the list.
    pub fn follow(&mut self, window: &mut Window, first: u64, links: Links, fits: impl Fn(u64) -> bool) {
        let mut link = first;
        for _ in 0..MOST {
            if link == 0 {
                return;
            }
            let Some((size, next)) = block(window, link, links).filter(|&(size, _)| fits(size)) else { break };
            if !self.marks.add(link - links.points_at) {
                break;
            }
            self.bytes += size;
            link = next;
        }
        self.broken += 1;
    }
}

/// The size of the block that a link points to, and the link in it.
fn block(window: &mut Window, link: u64, links: Links) -> Option<(u64, u64)> {
    let at = link.checked_sub(links.points_at).filter(|at| at % 16 == 0)?;
    let size = window.word(at.checked_add(8)?)? & !7;
    let place = at.checked_add(16)?;
    let word = window.word(place)?;
    Some((size, if links.mangled { word ^ place >> 12 } else { word }))
}
