//! The limits of the child, which it gives itself. In: bytes and times. Out: calls of the kernel.

use std::time::Duration;

/// The exit code of a child that had not enough memory.
pub const NO_MEMORY: i32 = 71;

/// Limits the memory of this process from now on: of all that it has, resident or not. Where an allocation fails, it ends with
/// `NO_MEMORY`, without a core file.
pub fn limit_memory(bytes: u64) {
    /// Rust ends a program that has no memory by `abort`.
    extern "C" fn end(_: libc::c_int) {
        // SAFETY: may be called in a signal handler, and does not return.
        unsafe { libc::_exit(NO_MEMORY) }
    }
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    // SAFETY: the calls read what they are given, which lives until they return. The handler calls only what a handler may.
    unsafe {
        libc::signal(libc::SIGABRT, end as extern "C" fn(libc::c_int) as libc::sighandler_t);
        libc::setrlimit(libc::RLIMIT_AS, &limit);
        libc::prctl(libc::PR_SET_NAME, c"allocanary".as_ptr());
    }
}

/// Ends this process after a time, or never. Its parent kills it earlier; this is for a parent that has ended.
pub fn end_after(time: Option<Duration>) {
    // 0 is never.
    let seconds = time.map_or(0, |time| time.as_secs().saturating_add(5).min(u32::MAX.into()) as u32);
    // SAFETY: a system call with a number. Nobody handles the signal, which then ends the process.
    unsafe { libc::alarm(seconds) };
}
