//! The allocator of this process. In: calls of a replay. Out: the same calls of the program's global allocator.

use std::alloc::{GlobalAlloc, Layout};

/// The allocator of this process, called as any Rust program calls it.
pub struct Global;

// SAFETY: every call is passed on unchanged.
unsafe impl GlobalAlloc for Global {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { std::alloc::alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { std::alloc::alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { std::alloc::dealloc(block, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { std::alloc::realloc(block, layout, size) }
    }
}
