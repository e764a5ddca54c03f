//! The recorder's own memory. In: a length. Out: pages that a fork wipes, and pages of the file that have room on the
//! disk.

use std::ptr::null_mut;

/// The size of a page.
pub fn page() -> usize {
    allocanary_sys::sys::page_bytes() as usize
}

/// Maps private memory that a fork wipes.
pub(super) fn map_wiped(length: usize) -> *mut u8 {
    let Some(start) = allocanary_sys::sys::map_zeroed(length) else { return null_mut() };
    // SAFETY: our own mapping.
    let wiped = unsafe { libc::madvise(start.as_ptr().cast(), length, libc::MADV_WIPEONFORK) };
    if wiped == 0 { start.as_ptr() } else { null_mut() }
}

/// This thread's error number.
pub(super) fn errno() -> i32 {
    // SAFETY: the C library's place for it.
    unsafe { *libc::__errno_location() }
}

/// The whole pages that a range begins, ends or lies in. Chunks begin at multiples of 4 KiB, which is not a page where pages are larger.
fn pages_of(start: *mut u8, length: usize) -> (*mut u8, usize) {
    let within = start.addr() & (page() - 1);
    (start.map_addr(|at| at - within), (within + length).next_multiple_of(page()))
}

/// Allocates the pages of a range of the mapped file. A full disk is then an error here, and not a signal later.
pub(super) fn populate(start: *mut u8, length: usize) -> bool {
    const MADV_POPULATE_WRITE: libc::c_int = 23;
    let (start, length) = pages_of(start, length);
    // SAFETY: a range of our own mapping. A kernel before 5.14 returns EINVAL: then each page is made when it is first
    // written to.
    unsafe { libc::madvise(start.cast(), length, MADV_POPULATE_WRITE) == 0 || errno() == libc::EINVAL }
}
