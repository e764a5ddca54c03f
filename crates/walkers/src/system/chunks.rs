//! Walks the blocks of a piece of memory, from each to the next one. Puts them on a layout and adds up what they are. A flag in the next
//! block says whether a block is in use or free. Blocks in fast bins and thread caches are marked as in use, so they are recognised from
//! the lists.

use super::links::Closure;
use super::marks::Cursor;
use super::structures::Structures;
use super::trim::Trim;
use crate::{BlockKind, Layout, Memory, PAGE, Window};

/// After a break, the walk continues where this many blocks in a row are plausible.
const PROOF: usize = 8;
/// The most addresses that are tried after breaks, in one walk of a heap.
const TRIES: u64 = 1 << 24;
/// The bytes of the smallest block, and of a fence, which is a header that ends a piece.
const SMALLEST: u64 = 32;
pub(super) const FENCE: u64 = 16;
/// The bits of a header. From the first on they mean: the block before it is in use; the block has its own mapping; the block belongs to a
/// thread arena.
const BEFORE_IN_USE: u64 = 1;
const MMAPPED: u64 = 2;
const OF_THREAD: u64 = 4;

/// A piece of an arena's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    /// Its first block.
    pub from: u64,
    /// The first address after it that was mapped when the mappings were read.
    pub to: u64,
    /// The first address after it now. It is higher than `to` if the arena has grown since.
    pub end: u64,
    /// The index of the arena in the list; 0 is the main arena.
    pub arena: u32,
    /// The free block at its end, if it is the arena's last piece.
    pub top: Option<u64>,
    /// Whether a trim can shrink the arena at the end of this piece.
    pub shrinks: bool,
}

/// The free blocks of an arena, as `mallinfo2` counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Free {
    /// Bytes of all free blocks.
    pub bytes: u64,
    /// Free blocks that are not in fast bins.
    pub blocks: u64,
    /// Bytes in fast bins.
    pub fast_bytes: u64,
    /// Blocks in fast bins.
    pub fast_blocks: u64,
}

/// Sums of a walk over all pieces.
#[derive(Debug, Default)]
pub(super) struct Sums {
    pub live: u64,
    pub blocks: u64,
    pub cached: u64,
    pub breaks: u64,
    pub skipped: u64,
    /// The skipped bytes that could not be read.
    pub unread: u64,
}

/// A walk of many pieces.
pub(super) struct Chunks<'a> {
    memory: &'a dyn Memory,
    window: Window<'a>,
    /// A second window, for the addresses that are tried after breaks: they are not in order.
    probe: Window<'a>,
    tries: u64,
    cached: Cursor<'a>,
    caches: Cursor<'a>,
    fast: Cursor<'a>,
    pub layout: Layout,
    pub trim: Trim<'a>,
    pub sums: Sums,
}

impl<'a> Chunks<'a> {
    pub fn new(memory: &'a dyn Memory, found: &'a Structures) -> Self {
        Chunks {
            memory,
            window: Window::new(memory),
            probe: Window::of_pages(memory),
            tries: TRIES,
            cached: found.caches.listed.marks.cursor(),
            caches: found.caches.own.cursor(),
            fast: found.fast.marks.cursor(),
            layout: Layout::of(memory),
            trim: Trim::new(memory, found.params.trim_unit),
            sums: Sums::default(),
        }
    }

    /// Walks a piece. Returns how many of its bytes were walked: all of them, if none was skipped.
    pub fn walk(&mut self, extent: &Extent, free: &mut Free, links: &mut Closure) -> u64 {
        let mut at = extent.from;
        let mut fenced = false;
        let skipped = self.sums.skipped;
        while at < extent.to && Some(at) != extent.top {
            match size(&mut self.window, at, extent) {
                Some(FENCE) => {
                    self.layout.block(at, FENCE, BlockKind::Structure);
                    self.trim.used();
                    fenced = true;
                    at += FENCE;
                }
                Some(size) => {
                    self.block(at, size, extent, free, links);
                    fenced = false;
                    at += size;
                }
                None => at = self.behind(at, fenced, extent),
            }
        }
        match extent.top {
            Some(top) if at == top && top <= extent.to => {
                free.bytes += extent.to - top;
                free.blocks += 1;
                self.trim.top(top, extent.to, extent.shrinks);
            }
            Some(_) => self.sums.breaks += 1,
            None => {}
        }
        self.trim.used();
        let end = if extent.top == Some(at) { extent.to } else { at.min(extent.to) };
        (end - extent.from).saturating_sub(self.sums.skipped - skipped)
    }

    fn block(&mut self, at: u64, size: u64, extent: &Extent, free: &mut Free, links: &mut Closure) {
        let next = at + size;
        if next > extent.to {
            // The block ends in the part by which the arena has grown.
            return self.in_use(at, extent.to - at, free);
        }
        let header = (next < extent.to).then(|| self.window.bytes(next, 16)).flatten().map(two_words);
        let Some((before, _)) = header.filter(|(_, header)| header & BEFORE_IN_USE == 0) else {
            return self.in_use(at, size, free);
        };
        // A free block also has its size at its end.
        self.sums.breaks += u64::from(before != size);
        if let Some((first, last)) = self.window.bytes(at + 16, 16).map(two_words) {
            links.block(at, first, last);
        }
        free.bytes += size;
        free.blocks += 1;
        self.trim.free(at, size);
    }

    fn in_use(&mut self, at: u64, size: u64, free: &mut Free) {
        if self.fast.has(at) {
            free.bytes += size;
            free.fast_bytes += size;
            free.fast_blocks += 1;
            return self.trim.free(at, size);
        }
        self.trim.used();
        let kind = if self.cached.has(at) {
            self.sums.cached += size;
            BlockKind::Cached
        } else if self.caches.has(at) {
            BlockKind::Structure
        } else {
            self.sums.live += size;
            self.sums.blocks += 1;
            // The program's bytes begin after the header, and include the next block's first word.
            self.layout.list(at + FENCE, size - 8, 1);
            BlockKind::Live
        };
        self.layout.block(at, size, kind);
    }

    /// The address at which the walk continues, if there is no block at `at`.
    fn behind(&mut self, at: u64, fenced: bool, extent: &Extent) -> u64 {
        self.trim.used();
        let left = extent.to - at;
        // The header that ends a thread arena's heap is after a fence. If there was no room for the fence, it is after
        // a small block.
        if left <= FENCE && (fenced || extent.arena != 0) {
            self.layout.block(at, left, BlockKind::Structure);
            return extent.to;
        }
        let is_unread = !self.memory.is_late() && self.window.word(at + 8).is_none();
        let next = self.resume(at, extent);
        self.layout.block(at, next - at, BlockKind::Unknown);
        if is_unread {
            self.sums.unread += next - at;
            self.sums.skipped += next - at;
        } else if fenced && extent.arena == 0 {
            // After fences, the main heap may have memory that the program itself took with `sbrk`.
            self.layout.hole(at, next);
        } else {
            self.sums.breaks += 1;
            self.sums.skipped += next - at;
        }
        next
    }

    /// The next address at which several blocks in a row are plausible.
    fn resume(&mut self, at: u64, extent: &Extent) -> u64 {
        let mut at = at.next_multiple_of(16);
        while at < extent.to && self.tries > 0 && !self.memory.is_late() {
            self.tries -= 1;
            if Some(at) == extent.top || proven(&mut self.probe, at, extent) {
                return at;
            }
            at = match self.probe.word(at + 8) {
                Some(_) => at + 16,
                // The next page is the next that can be read.
                None => at / PAGE * PAGE + PAGE,
            };
        }
        extent.top.filter(|&top| at <= top && top <= extent.to).unwrap_or(extent.to)
    }
}

fn proven(window: &mut Window, mut at: u64, extent: &Extent) -> bool {
    for _ in 0..PROOF {
        match size(window, at, extent) {
            Some(size) if size >= SMALLEST => at += size,
            _ => return false,
        }
        if Some(at) == extent.top {
            return true;
        }
    }
    true
}

/// The size of the block at an address, if there can be one.
pub(super) fn size(window: &mut Window, at: u64, extent: &Extent) -> Option<u64> {
    let header = window.word(at.checked_add(8)?)?;
    let size = header & !7;
    let kind = if extent.arena == 0 { MMAPPED | OF_THREAD } else { MMAPPED };
    let end = at.checked_add(size)?;
    let ends = end <= extent.end && extent.top.is_none_or(|top| end <= top || at > top);
    let fence = header & !BEFORE_IN_USE == FENCE;
    (size % 16 == 0 && (size >= SMALLEST || fence) && header & kind == 0 && ends).then_some(size)
}

fn two_words(bytes: &[u8]) -> (u64, u64) {
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("sixteen bytes were asked for"));
    (word(0), word(8))
}
