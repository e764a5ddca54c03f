//! The limits on memory and time that the child sets for itself.

use std::time::Duration;

/// The exit code of a child that did not have enough memory.
pub const NO_MEMORY: i32 = 71;
/// The exit code of a child that could not give up its rights.
pub const NOT_CONFINED: i32 = 72;

/// Limits the memory of this process from now on: all of its address space, resident or not. If an allocation fails,
/// the process ends with `NO_MEMORY`, without a core file.
pub fn limit_memory(bytes: u64) {
    /// When an allocation fails, Rust ends the program by `abort`.
    extern "C" fn end(_: libc::c_int) {
        // SAFETY: may be called in a signal handler, and does not return.
        unsafe { libc::_exit(NO_MEMORY) }
    }
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    // SAFETY: the calls only read their arguments, which live until they return. The handler calls only functions that
    // are allowed in a handler.
    unsafe {
        libc::signal(libc::SIGABRT, end as extern "C" fn(libc::c_int) as libc::sighandler_t);
        libc::setrlimit(libc::RLIMIT_AS, &limit);
        libc::prctl(libc::PR_SET_NAME, c"allocanary".as_ptr());
    }
}

/// Ends this process after a time; `None` means never. The parent usually kills it earlier. This is for the case that
/// the parent has ended.
pub fn end_after(time: Option<Duration>) {
    // 0 seconds means never.
    let seconds = time.map_or(0, |time| time.as_secs().saturating_add(5).min(u32::MAX.into()) as u32);
    // SAFETY: a system call with a number. The process has no handler for the signal, which then ends it.
    unsafe { libc::alarm(seconds) };
}
