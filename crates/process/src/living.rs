//! Finds the ID under which `/proc` has a process's memory: that of the process, or of one of its threads.
//!
//! If the first thread of a process has ended and others continue (`pthread_exit` in `main`), the kernel shows the process as ended:
//! `/proc/PID` has no memory and no files. `/proc/TID` of a living thread has them.

use std::io;

use allocanary_sys::proc::Stat;
use allocanary_sys::proc::pids::tids;

/// The process ID, or the ID of a living thread if the first thread has ended.
pub(crate) fn number(pid: u32) -> u32 {
    if !Stat::of(pid).is_ok_and(|stat| stat.has_ended()) {
        return pid;
    }
    let lives = |tid: &u32| Stat::of_thread(pid, *tid).is_ok_and(|stat| !stat.has_ended());
    tids(pid).unwrap_or_default().into_iter().find(lives).unwrap_or(pid)
}

/// Calls `open` with the process ID. If this fails and the first thread has ended, calls it with the ID of a living thread.
pub(crate) fn or_living<T>(pid: u32, open: impl Fn(u32) -> io::Result<T>) -> io::Result<T> {
    open(pid).or_else(|error| match number(pid) {
        other if other != pid => open(other),
        _ => Err(error),
    })
}
