//! An allocator that counts for a budget what each thread allocates. In: an allocator's calls. Out: the same calls, and a call of the
//! budget each time a thread has allocated a [`chunk`].

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;

use super::{LARGE, at_chunk, before_block, chunk};

thread_local! {
    /// Bytes since the last chunk. It has no destructor, so it can be used until the thread's end.
    static BYTES: Cell<u64> = const { Cell::new(0) };
}

/// An allocator that a budget watches: `install!(system, memory_budget = container)`.
#[derive(Debug, Default)]
pub struct Counted<A>(A);

impl<A> Counted<A> {
    /// Wraps `allocator` and counts what it gives out.
    pub const fn new(allocator: A) -> Self {
        Counted(allocator)
    }
}

#[inline(always)]
fn count(bytes: usize) {
    let sum = BYTES.get().wrapping_add(bytes as u64);
    BYTES.set(sum);
    if sum >= chunk() {
        BYTES.set(0);
        at_chunk(sum, sum);
    }
}

// SAFETY: the inner allocator does all of the work. The budget itself allocates only by calls that any code may make.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Counted<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promises, here and below.
        unsafe { self.0.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: as above.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { self.0.dealloc(block, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if size as u64 >= LARGE && size > layout.size() {
            before_block(size as u64);
        }
        count(size.saturating_sub(layout.size()));
        // SAFETY: as above.
        unsafe { self.0.realloc(block, layout, size) }
    }
}
