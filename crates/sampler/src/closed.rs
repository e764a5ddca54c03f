//! The libraries that this process has closed. In: nothing. Out: how many.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How many the loader has unmapped since the process's start; 0 with a loader that does not count them.
fn count() -> u64 {
    unsafe extern "C" fn one(info: *mut libc::dl_phdr_info, _: usize, count: *mut c_void) -> c_int {
        // SAFETY: the loader's entry, and the number below, both of which are there during the call.
        unsafe { *count.cast::<u64>() = (*info).dlpi_subs };
        // The count is of the process, and the same in each entry.
        1
    }
    let mut count = 0_u64;
    // SAFETY: the number is there until the call returns.
    unsafe { libc::dl_iterate_phdr(Some(one), (&raw mut count).cast()) };
    count
}

/// How many more there are than at the last call.
pub(super) fn more() -> u64 {
    static BEFORE: AtomicU64 = AtomicU64::new(0);
    let now = count();
    now.saturating_sub(BEFORE.swap(now, Relaxed))
}
