//! Records every allocation of a program, to replay it under every allocator. In: any `GlobalAlloc`. Out: the same allocator, and a trace
//! if the environment requests one.
//!
//! `allocanary record` preloads a library. A program with its own allocator linked in never calls that library. Such a program records
//! itself:
//!
//! ```ignore
//! allocanary::install!(jemalloc, wrap = allocanary::Recording);
//! # fn main() {}
//! ```
//!
//! ```sh
//! ALLOCANARY_RECORD=/folder ./service
//! allocanary replay /folder/service-812-0.trace
//! ```
//!
//! `ALLOCANARY_RECORD` is the absolute path of an existing folder. If the process cannot make its file there, one line on
//! standard error says so, and nothing is recorded. `ALLOCANARY_RECORD_MAX` (bytes), `ALLOCANARY_RECORD_SAMPLE` and
//! `ALLOCANARY_RECORD_WINDOW` (milliseconds) are the bounds, as for the preload. Without the first variable a call costs
//! one read of thread-local memory. Calls of `malloc` by the program's C code are not recorded.
//!
//! `ALLOCANARY_RECORD_STACK_SAMPLE=1` records where each block was allocated, for `allocanary who`; `=10` does this for one
//! allocation in ten. Stacks need x86-64 and glibc 2.35 or later.
//!
//! A zeroed block with an alignment above 16 is recorded as an aligned block, because the format has no zeroed block
//! with an alignment. A replay writes to the pages of this block; it does not write to other zeroed blocks.
//!
//! On other processors than x86-64 and aarch64 nothing is recorded.

use std::alloc::{GlobalAlloc, Layout};

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use allocanary_recorder as recorder;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use allocanary_recorder::AllocFunction;

/// An allocator that records its calls; see the [module](self).
pub struct Recording<A> {
    inner: A,
    /// The functions that run at the program's start and exit. These references make the linker keep their table entries.
    _calls: [&'static extern "C" fn(); 2],
}

extern "C" fn at_start() {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    {
        recorder::watch_forks();
        recorder::look_up_in_program();
    }
}

/// Runs before the program's `main`.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = at_start;

extern "C" fn at_exit() {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    recorder::exiting();
}

/// Runs when the program exits, and marks the trace as complete.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = at_exit;

impl<A> Recording<A> {
    /// Wraps `allocator`.
    pub const fn new(allocator: A) -> Self {
        Recording { inner: allocator, _calls: [&AT_START, &AT_EXIT] }
    }

    /// The wrapped allocator.
    pub const fn inner(&self) -> &A {
        &self.inner
    }
}

/// Alignments up to this number of bytes are those of `malloc`.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const NATURAL: usize = 16;

/// A new block, recorded after the call that made it.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[inline(always)]
fn allocated(block: *mut u8, layout: Layout, how: AllocFunction) -> *mut u8 {
    match (layout.align() > NATURAL, how) {
        // The format has no zeroed block with an alignment.
        (true, _) => {
            recorder::allocated_by(AllocFunction::Aligned(layout.align().trailing_zeros() as u8), block, layout.size())
        }
        (_, AllocFunction::Malloc) => recorder::allocated(block, layout.size()),
        _ => recorder::allocated_by(how, block, layout.size()),
    }
}

// SAFETY: every call is passed on unchanged; the recorder reads no block, allocates nothing and does not unwind.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
unsafe impl<A: GlobalAlloc> GlobalAlloc for Recording<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are those that the inner allocator requires, here and below.
        let block = unsafe { self.inner.alloc(layout) };
        allocated(block, layout, AllocFunction::Malloc)
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        let block = unsafe { self.inner.alloc_zeroed(layout) };
        allocated(block, layout, AllocFunction::Calloc)
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let block = recorder::freed(block);
        // SAFETY: as above. The block goes to the allocator that made it, because there is only the inner one.
        unsafe { self.inner.dealloc(block, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let begun = recorder::resizing(block);
        // SAFETY: as above.
        let new = unsafe { self.inner.realloc(block, layout, size) };
        recorder::resized(begun, new, size);
        new
    }
}

// SAFETY: every call is passed on unchanged.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
unsafe impl<A: GlobalAlloc> GlobalAlloc for Recording<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are those that the inner allocator requires, here and below.
        unsafe { self.inner.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        unsafe { self.inner.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { self.inner.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        unsafe { self.inner.realloc(block, layout, size) }
    }
}
