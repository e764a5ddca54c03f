//! Returns the unused pages of the calling thread's stack to the system.
//!
//! A stack's pages stay in memory once they were touched, even after the calls that touched them have returned. Pages
//! below the stack pointer are not in use. The system may take them back, and gives zeroed pages when the stack grows
//! again. The main thread is left out: its stack has no fixed lower end.

use std::cell::Cell;
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::ptr::with_exposed_provenance_mut;

use allocanary_sys::sys::page_bytes;

/// This many bytes below the stack pointer are not returned: the red zone, and the frames of the calls that return the rest.
const MARGIN: usize = 16 << 10;

thread_local! {
    /// The lowest usable address of this thread's stack and the first address above it. `(0, 0)` if they were not read yet.
    static BOUNDS: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// Returns the calling thread's unused stack pages to the system. Does nothing in the main thread, and on a stack that is
/// not the thread's own, such as a coroutine's.
#[inline(never)]
pub fn give_back() {
    let here = 0_u8;
    let pointer = black_box(&raw const here).expose_provenance();
    let (low, high) = BOUNDS.with(|bounds| {
        if bounds.get() == (0, 0) {
            bounds.set(bounds_of_this_thread().unwrap_or((1, 1)));
        }
        bounds.get()
    });
    if !(low..high).contains(&pointer) {
        return;
    }
    let page = page_bytes() as usize;
    let (first, end) = (low.next_multiple_of(page), pointer.saturating_sub(MARGIN) / page * page);
    if first < end {
        // SAFETY: whole pages of this thread's stack, below all live frames and below what this call needs itself. Nothing there is
        // read before it is written.
        unsafe { libc::madvise(with_exposed_provenance_mut(first), end - first, libc::MADV_DONTNEED) };
    }
}

/// The bounds of this thread's stack, without its guard; `None` in the main thread, or if the bounds are unknown.
fn bounds_of_this_thread() -> Option<(usize, usize)> {
    // SAFETY: both calls only ask the kernel.
    if unsafe { libc::syscall(libc::SYS_gettid) } == i64::from(unsafe { libc::getpid() }) as libc::c_long {
        return None;
    }
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: initialises the attributes of the calling thread, if it succeeds.
    if unsafe { libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) } != 0 {
        return None;
    }
    let (mut start, mut size, mut guard) = (std::ptr::null_mut(), 0, 0);
    // SAFETY: initialised above, and destroyed once; the calls write to the three variables.
    let known = unsafe {
        let known = libc::pthread_attr_getstack(attributes.as_ptr(), &mut start, &mut size) == 0
            && libc::pthread_attr_getguardsize(attributes.as_ptr(), &mut guard) == 0;
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        known
    };
    let start = start.addr();
    // Some versions of glibc count the guard as part of the stack. To leave out the size of the guard is right in all versions.
    (known && guard < size).then_some((start + guard, start + size))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uses some 700 KiB of stack, and touches each page.
    #[inline(never)]
    fn deep(calls: usize) -> usize {
        let frame = black_box([calls as u8; 64 << 10]);
        if calls == 0 { 0 } else { deep(calls - 1) + frame[calls] as usize }
    }

    /// Pages of this thread's stack that are in memory.
    fn resident() -> usize {
        let (low, high) = bounds_of_this_thread().unwrap();
        let page = page_bytes() as usize;
        let first = low.next_multiple_of(page);
        let mut pages = vec![0_u8; (high - first) / page];
        // SAFETY: the kernel writes a byte for each page.
        let failed =
            unsafe { libc::mincore(with_exposed_provenance_mut(first), pages.len() * page, pages.as_mut_ptr()) };
        assert_eq!(failed, 0);
        pages.iter().filter(|page| **page & 1 == 1).count()
    }

    #[test]
    fn what_lies_below_goes_back_and_what_lives_stays() {
        let work = || {
            let kept = black_box([7_u8; 32 << 10]);
            assert_eq!(deep(10), (1..=10).sum());
            let before = resident();
            give_back();
            let after = resident();
            assert!(kept.iter().all(|byte| *byte == 7));
            assert_eq!(deep(10), (1..=10).sum(), "the stack grows again");
            (before, after)
        };
        let (before, after) = std::thread::Builder::new().stack_size(2 << 20).spawn(work).unwrap().join().unwrap();
        let page = page_bytes() as usize;
        assert!(before >= (700 << 10) / page && after < before - (600 << 10) / page, "{after} of {before} pages stay");
    }

    #[test]
    fn the_main_thread_has_no_bounds_and_another_thread_has() {
        // The test harness runs each test in a separate thread.
        let (low, high) = bounds_of_this_thread().unwrap();
        let here = 0_u8;
        assert!((low..high).contains(&(&raw const here).addr()));
        give_back();
    }
}
