//! The allocator's four calls. In: blocks made, moved and freed. Out: the inner allocator's results, and records.
//!
//! Whether a block is sampled is decided before the call of the allocator. So this call is a jump, and nothing has to
//! be saved across it. If the allocation then fails, its bytes are used up, which does not change the chances of other
//! blocks.

use std::alloc::{GlobalAlloc, Layout};

use super::{Leaks, sampler};

impl<A: GlobalAlloc> Leaks<A> {
    /// Whether a block of `bytes` is to be recorded, or at least needs a random draw. Without sampling, the thread's
    /// countdown is not used, because it may belong to another allocator.
    #[inline(always)]
    fn passes(&self, bytes: u64) -> bool {
        if self.is_sampling() { sampler::passes(bytes) } else { bytes > 0 }
    }

    /// Allocates the block at which the thread's countdown has ended.
    #[cold]
    #[inline(never)]
    fn made(&self, size: usize, make: impl FnOnce() -> *mut u8) -> *mut u8 {
        let block = make();
        self.record(block, size as u64, size as u64);
        block
    }

    /// Reallocates a block that may have a record (`may_have`), or at which the thread's countdown has ended. In the
    /// first case the countdown did not count the block yet.
    ///
    /// # Safety
    ///
    /// The same as for [`GlobalAlloc::realloc`].
    #[cold]
    #[inline(never)]
    unsafe fn realloc_recorded(&self, block: *mut u8, layout: Layout, size: usize, may_have: bool) -> *mut u8 {
        // Detached before the call, as with a free: another thread may get the old address before the call returns.
        let number = self.table().and_then(|table| table.detach(block as usize));
        // SAFETY: the caller's promises are those that the allocator asks for.
        let moved = unsafe { self.inner.realloc(block, layout, size) };
        let (old, new) = (layout.size() as u64, size as u64);
        let more = new.saturating_sub(old);
        match number {
            Some(number) if moved.is_null() => self.attach(block, number, old, old),
            Some(number) => self.attach(moved, number, old, new),
            None if !may_have || self.passes(more) => self.record(moved, new, more),
            None => {}
        }
        moved
    }
}

// SAFETY: every call is passed on unchanged; recording touches no memory of the allocator, allocates nothing from it
// and does not unwind.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Leaks<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if self.passes(layout.size() as u64) {
            // SAFETY: the caller's promises are those that the allocator asks for.
            return self.made(layout.size(), || unsafe { self.inner.alloc(layout) });
        }
        // SAFETY: as above.
        unsafe { self.inner.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if self.passes(layout.size() as u64) {
            // SAFETY: as above.
            return self.made(layout.size(), || unsafe { self.inner.alloc_zeroed(layout) });
        }
        // SAFETY: as above.
        unsafe { self.inner.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // A block that has a record keeps it. Its new bytes get their random draw with the record.
        let may_have = self.may_have(block);
        if may_have || self.passes((size as u64).saturating_sub(layout.size() as u64)) {
            // SAFETY: as above.
            return unsafe { self.realloc_recorded(block, layout, size, may_have) };
        }
        // SAFETY: as above.
        unsafe { self.inner.realloc(block, layout, size) }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if self.may_have(block) {
            self.forget(block);
        }
        // SAFETY: as above.
        unsafe { self.inner.dealloc(block, layout) };
    }
}

#[cfg(test)]
#[path = "hooks_tests.rs"]
mod tests;
