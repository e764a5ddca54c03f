//! The number by which the kernel tells of a process's memory. In: a process. Out: its number, or that of one of its threads.
//!
//! If the first thread of a process has ended and others go on (`pthread_exit` in `main`), the kernel shows the process as one that
//! has ended: `/proc/PID` has no memory and no files. `/proc/TID` of a thread that lives has them.

use std::io;

use allocanary_sys::proc::Stat;
use allocanary_sys::proc::pids::tids;

/// The process's number, or that of a thread that lives if the first one has ended.
pub(crate) fn number(pid: u32) -> u32 {
    if !Stat::of(pid).is_ok_and(|stat| stat.has_ended()) {
        return pid;
    }
    let lives = |tid: &u32| Stat::of_thread(pid, *tid).is_ok_and(|stat| !stat.has_ended());
    tids(pid).unwrap_or_default().into_iter().find(lives).unwrap_or(pid)
}

/// Opens something by the process's number. If the kernel has nothing there, by that of a thread that lives.
pub(crate) fn or_living<T>(pid: u32, open: impl Fn(u32) -> io::Result<T>) -> io::Result<T> {
    open(pid).or_else(|error| match number(pid) {
        other if other != pid => open(other),
        _ => Err(error),
    })
}
