//! A pool for the blocks of one site. In: calls of a replay. Out: blocks in a separate range of addresses.
//!
//! It is a pool as a developer could write it. A span of pages has blocks of one size class, and a list of the free
//! ones. Size classes are 16 bytes apart up to 128 bytes. Above that, each doubling has four classes. When the last
//! block of a span is freed, the span returns its pages at once, except for one small span of each class. The pool has
//! one lock, and any thread may free a block.
//!
//! The records of spans are in shared memory, like the replay's own tables, so that only blocks count as memory.

mod classes;

use std::alloc::Layout;
use std::ops::Range;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

use self::classes::{CLASSES, ORDERS, blocks_in, class_of, order_of, size_of_class};
use super::noted::Notes;
use crate::mapped::{Anonymous, Zeroed};

const PAGE: usize = 4096;
/// The size of the pool's range of addresses, in bytes. Pages exist only after they are written to.
const REGION: usize = 1 << 36;
/// The range begins at a multiple of this number of bytes, which is the largest alignment of a block.
const ALIGN: usize = 1 << 30;
/// A span of at most this many bytes keeps its pages when it becomes empty. Only one span of each class does so.
const KEPT: usize = 64 << 10;

/// The record of a page of the range. In the pages of a span after the first, only the class is used.
struct Span {
    /// The class of its blocks, plus 1.
    class: AtomicU32,
    live: AtomicU32,
    /// The number of the first free block, plus 1.
    free: AtomicU32,
    /// The number of blocks that were ever taken from the span's end.
    made: AtomicU32,
    /// 1 if the span had blocks before and kept its pages, so that its bytes may not be zeros.
    used: AtomicU32,
    /// The pages, plus 1, of the next and the previous span in a list.
    next: AtomicU32,
    before: AtomicU32,
}

// SAFETY: integers.
unsafe impl Zeroed for Span {}

/// Lists of spans. A span is named by its first page plus 1.
struct Lists {
    /// The number of pages that belong or belonged to spans.
    end: usize,
    /// For each class, the spans with a place for a block.
    room: [u32; CLASSES],
    /// For each class, an empty span that has kept its pages.
    kept: [u32; CLASSES],
    /// For each size, the spans that have given their pages back.
    gone: [u32; ORDERS],
}

/// A pool of blocks in a separate range of addresses.
pub struct Pool<'a> {
    /// The whole mapping, and the first address of the range in it.
    mapping: NonNull<u8>,
    start: usize,
    spans: Anonymous<Span>,
    lists: Mutex<Lists>,
    notes: &'a Notes,
}

// SAFETY: lists and spans are changed under the lock, and the memory of a block belongs to the caller that allocated
// it.
unsafe impl Sync for Pool<'_> {}

impl<'a> Pool<'a> {
    /// An empty pool. `None` if the kernel does not give the address space.
    pub fn new(notes: &'a Notes) -> Option<Pool<'a>> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping of no file.
        let mapping = unsafe { libc::mmap(null_mut(), REGION + ALIGN, access, flags, -1, 0) };
        let mapping = NonNull::new(mapping.cast::<u8>()).filter(|_| mapping != libc::MAP_FAILED)?;
        // Huge pages are off, because pages of 4 KiB are counted. This does nothing on a kernel without huge pages.
        // SAFETY: the new mapping.
        unsafe { libc::madvise(mapping.as_ptr().cast(), REGION + ALIGN, libc::MADV_NOHUGEPAGE) };
        let lists = Lists { end: 0, room: [0; CLASSES], kept: [0; CLASSES], gone: [0; ORDERS] };
        let start = mapping.addr().get().next_multiple_of(ALIGN);
        // From here on the mapping has an owner, which unmaps it.
        let pool = |spans| Pool { mapping, start, spans, lists: Mutex::new(lists), notes };
        match Anonymous::new(REGION / PAGE) {
            Some(spans) => Some(pool(spans)),
            None => {
                // SAFETY: our own mapping, which nobody uses.
                unsafe { libc::munmap(mapping.as_ptr().cast(), REGION + ALIGN) };
                None
            }
        }
    }

    /// The addresses of the pool.
    pub fn region(&self) -> Range<u64> {
        self.start as u64..(self.start + REGION) as u64
    }

    #[inline(always)]
    pub(crate) fn has(&self, block: *mut u8) -> bool {
        block.addr().wrapping_sub(self.start) < REGION
    }

    /// A block; null if there is no room. If `zeroed`, its bytes are zeros.
    pub(crate) fn alloc(&self, layout: Layout, zeroed: bool) -> *mut u8 {
        let Some(class) = class(layout) else { return null_mut() };
        let Some((at, is_new)) = self.take(class) else { return null_mut() };
        let block = self.at(at);
        if zeroed && !is_new {
            // SAFETY: the block has at least the bytes of the layout, and no other thread has it.
            unsafe { block.write_bytes(0, layout.size()) };
        }
        self.notes.note(block, layout.size());
        block
    }

    /// Gives a block of the pool another layout, if it may stay where it is. Returns whether it stays.
    pub(crate) fn resize(&self, block: *mut u8, layout: Layout) -> bool {
        let stays = class(layout).is_some_and(|class| class == self.span_of(block).1);
        if stays {
            self.notes.note(block, layout.size());
        }
        stays
    }

    /// Frees a block.
    ///
    /// # Safety
    ///
    /// The block came from this pool, and is not used any more.
    pub(crate) unsafe fn free(&self, block: *mut u8) {
        let mut lists = self.lock();
        let (first, class) = self.span_of(block);
        let span = &self.spans.items()[first];
        let was_full = span.free.load(Relaxed) == 0 && span.made.load(Relaxed) as usize == blocks_in(class);
        let live = span.live.load(Relaxed) - 1;
        span.live.store(live, Relaxed);
        if live > 0 {
            let number = (block.addr() - self.start - first * PAGE) / size_of_class(class);
            // SAFETY: nobody uses the block, which has 16 bytes and that alignment.
            unsafe { block.cast::<u32>().write(span.free.load(Relaxed)) };
            span.free.store(number as u32 + 1, Relaxed);
            if was_full {
                self.link(&mut lists.room[class], first);
            }
            return;
        }
        if !was_full {
            self.unlink(&mut lists.room[class], first);
        }
        span.free.store(0, Relaxed);
        span.made.store(0, Relaxed);
        let bytes = PAGE << order_of(class);
        if bytes <= KEPT && lists.kept[class] == 0 {
            span.used.store(1, Relaxed);
            lists.kept[class] = first as u32 + 1;
            return;
        }
        // SAFETY: whole pages of our own mapping, in which no block lives.
        let error = unsafe { libc::madvise(self.at(first * PAGE).cast(), bytes, libc::MADV_DONTNEED) };
        // If the kernel refuses, the old bytes are still in the pages.
        span.used.store(u32::from(error != 0), Relaxed);
        self.link(&mut lists.gone[order_of(class)], first);
    }

    /// Takes a block. Returns its offset, and whether its bytes are still the kernel's zeros.
    fn take(&self, class: usize) -> Option<(usize, bool)> {
        let mut lists = self.lock();
        let first = match lists.room[class] {
            0 => self.open(&mut lists, class)?,
            page => page as usize - 1,
        };
        let span = &self.spans.items()[first];
        let at = |number: usize| first * PAGE + number * size_of_class(class);
        let (number, is_new) = match span.free.load(Relaxed) {
            0 => {
                let number = span.made.load(Relaxed);
                span.made.store(number + 1, Relaxed);
                (number as usize, span.used.load(Relaxed) == 0)
            }
            number => {
                let number = number as usize - 1;
                // SAFETY: a free block: `free` wrote the number of the next one there.
                span.free.store(unsafe { self.at(at(number)).cast::<u32>().read() }, Relaxed);
                (number, false)
            }
        };
        span.live.store(span.live.load(Relaxed) + 1, Relaxed);
        if span.free.load(Relaxed) == 0 && span.made.load(Relaxed) as usize == blocks_in(class) {
            self.unlink(&mut lists.room[class], first);
        }
        Some((at(number), is_new))
    }

    /// Makes a span without blocks, and adds it to the list of spans with room.
    fn open(&self, lists: &mut Lists, class: usize) -> Option<usize> {
        let order = order_of(class);
        let kept = std::mem::take(&mut lists.kept[class]);
        let first = match (kept, lists.gone[order]) {
            (0, 0) => {
                // A span begins at a multiple of its size, so that its first page can be computed from any of its
                // pages.
                let first = lists.end.next_multiple_of(1 << order);
                let end = first.checked_add(1 << order).filter(|end| *end <= REGION / PAGE)?;
                lists.end = end;
                first
            }
            (0, gone) => {
                self.unlink(&mut lists.gone[order], gone as usize - 1);
                gone as usize - 1
            }
            (kept, _) => kept as usize - 1,
        };
        // If a span has several blocks, `span_of` also looks up other pages than the first.
        let pages = if blocks_in(class) > 1 { 1 << order } else { 1 };
        self.spans.items()[first..first + pages].iter().for_each(|span| span.class.store(class as u32 + 1, Relaxed));
        self.link(&mut lists.room[class], first);
        Some(first)
    }

    /// The first page of a block's span, and its class.
    fn span_of(&self, block: *mut u8) -> (usize, usize) {
        let page = (block.addr() - self.start) / PAGE;
        let class = self.spans.items()[page].class.load(Relaxed) as usize - 1;
        (page >> order_of(class) << order_of(class), class)
    }

    fn at(&self, offset: usize) -> *mut u8 {
        self.mapping.as_ptr().with_addr(self.start + offset)
    }

    fn lock(&self) -> MutexGuard<'_, Lists> {
        self.lists.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Puts a span at the head of a list.
    fn link(&self, head: &mut u32, first: usize) {
        let spans = self.spans.items();
        let next = std::mem::replace(head, first as u32 + 1);
        spans[first].next.store(next, Relaxed);
        spans[first].before.store(0, Relaxed);
        if next > 0 {
            spans[next as usize - 1].before.store(first as u32 + 1, Relaxed);
        }
    }

    /// Removes a span from its list.
    fn unlink(&self, head: &mut u32, first: usize) {
        let spans = self.spans.items();
        let (next, before) = (spans[first].next.load(Relaxed), spans[first].before.load(Relaxed));
        match before {
            0 => *head = next,
            before => spans[before as usize - 1].next.store(next, Relaxed),
        }
        if next > 0 {
            spans[next as usize - 1].before.store(before, Relaxed);
        }
    }
}

impl Drop for Pool<'_> {
    fn drop(&mut self) {
        // SAFETY: our own mapping, whose blocks nobody uses any more.
        unsafe { libc::munmap(self.mapping.as_ptr().cast(), REGION + ALIGN) };
    }
}

/// The class for a layout. An alignment above 16 needs a class that is a power of two, because the blocks of its spans
/// are at multiples of their size.
fn class(layout: Layout) -> Option<usize> {
    let size = match layout.align() {
        ..=16 => layout.size(),
        align if align <= ALIGN => layout.size().max(align).checked_next_power_of_two()?,
        _ => return None,
    };
    class_of(size)
}

#[cfg(test)]
mod tests;
