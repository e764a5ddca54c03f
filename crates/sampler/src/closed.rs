//! Counts the libraries that this process has closed.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The number of libraries that the loader has unmapped since the start of the process; 0 if the loader does not count
/// them.
fn count() -> u64 {
    unsafe extern "C" fn one(info: *mut libc::dl_phdr_info, _: usize, count: *mut c_void) -> c_int {
        // SAFETY: the loader's entry, and the number below, exist during the call.
        unsafe { *count.cast::<u64>() = (*info).dlpi_subs };
        // The count is that of the whole process, and is the same in each entry.
        1
    }
    let mut count = 0_u64;
    // SAFETY: the number exists until the call returns.
    unsafe { libc::dl_iterate_phdr(Some(one), (&raw mut count).cast()) };
    count
}

/// The number of libraries that were closed since the last call.
pub(super) fn more() -> u64 {
    static BEFORE: AtomicU64 = AtomicU64::new(0);
    let now = count();
    now.saturating_sub(BEFORE.swap(now, Relaxed))
}
