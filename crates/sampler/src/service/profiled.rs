//! An allocator whose blocks are sampled. In: an allocator's calls. Out: the same calls, and samples in the table.

use std::alloc::{GlobalAlloc, Layout};

use crate::{allocated, draw, freed, may_be_sampled, take};

/// An allocator with a sampler: `install!(jemalloc, profile = "512KiB")`.
#[derive(Debug, Default)]
pub struct Profiled<A>(A);

impl<A> Profiled<A> {
    /// Wraps `allocator`.
    pub const fn new(allocator: A) -> Self {
        Profiled(allocator)
    }
}

/// The path of this file in line tables, after the folder in which it was compiled.
pub(super) const FILE: &str = file!();

/// Samples a block that the allocator has just made.
#[cold]
#[inline(never)]
fn made(block: *mut u8, size: usize) -> *mut u8 {
    allocated(block, size);
    block
}

// SAFETY: the inner allocator does all of the work. The sampler allocates nothing.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Profiled<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if draw(layout.size() as u64) {
            // SAFETY: the caller's promises, here and below.
            return made(unsafe { self.0.alloc(layout) }, layout.size());
        }
        // SAFETY: as above.
        unsafe { self.0.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if draw(layout.size() as u64) {
            // SAFETY: as above.
            return made(unsafe { self.0.alloc_zeroed(layout) }, layout.size());
        }
        // SAFETY: as above.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // The block leaves the table before it is free, because another thread may get its address then.
        if may_be_sampled(block) {
            freed(block);
        }
        // SAFETY: as above.
        unsafe { self.0.dealloc(block, layout) }
    }

    /// In the profile, a `realloc` frees the old block and makes another one.
    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let is_sampled = draw(size as u64);
        let leaving = if may_be_sampled(block) { take(block) } else { None };
        // SAFETY: as above.
        let new = unsafe { self.0.realloc(block, layout, size) };
        match leaving {
            Some(leaving) if new.is_null() => leaving.stays(),
            Some(leaving) => leaving.freed(),
            None => {}
        }
        if is_sampled { made(new, size) } else { new }
    }
}
