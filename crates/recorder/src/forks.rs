//! Handles a fork by a signal handler that has interrupted the recorder. In: the C library's calls around a fork. Out: a
//! child that continues the interrupted call.
//!
//! The child has neither the trace's mapping nor the thread's state, because a fork removes the mapping and wipes the state. But the
//! interrupted call has a place in the mapping and a pointer to the state. So in the child the chunk of that call becomes private memory.
//! The call writes bytes to it that are never read. The call keeps the wiped state, and the thread begins a new one. A call that records
//! stacks may be writing to tables anywhere in the file, so the whole file becomes private memory then. A signal handler can interrupt only
//! the writing of events. It cannot interrupt the parts that make system calls ([`undisturbed`](super::undisturbed::undisturbed)).
//!
//! One case is not covered: a handler that forks by `_Fork` or by the bare system call, neither of which calls fork handlers, and then
//! returns in the child.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use super::config;
use super::memory::page;
use super::process::{self, KEY};
use super::thread::{QUIET, Thread};
use super::tls;

/// The length of the whole file. The parent stores it before a fork, for the child.
static WHOLE: AtomicUsize = AtomicUsize::new(0);

/// Registers handlers for this process's forks, if a recording is requested. Runs once, before `main`: the C library takes a lock, and
/// registers the first 48 handlers without an allocation.
pub fn watch_forks() {
    if config::is_asked() {
        // SAFETY: registers two functions, which exist as long as the process.
        unsafe { libc::pthread_atfork(Some(before), None, Some(in_child)) };
    }
}

/// Registers the same handlers for a recorder that was put into a running process. Later calls do nothing.
pub(super) fn watch_own_forks() {
    static WATCHES: AtomicUsize = AtomicUsize::new(0);
    if WATCHES.swap(1, SeqCst) == 0 {
        // SAFETY: as above. The library with these functions is never closed.
        unsafe { libc::pthread_atfork(Some(before), None, Some(in_child)) };
    }
}

/// Runs in the parent, on the thread that forks. Stores the pages of an interrupted call's chunk as one value: their address, with the
/// number of pages plus 1 in the lowest bits, or all ones there for the whole file. Without an interrupted call the value is 0.
unsafe extern "C" fn before() {
    let this = tls::get::<Thread>();
    // SAFETY: the thread's own state.
    let interrupted = if this > QUIET { unsafe { Thread::interrupted(this) } } else { None };
    let whole = interrupted.and_then(|_| process::present()?.file_with_stacks());
    let note = interrupted.map_or(0, |(start, length)| {
        let page = page();
        if let Some((start, length)) = whole {
            WHOLE.store(length, SeqCst);
            return start | (page - 1);
        }
        let (first, end) = (start & !(page - 1), (start + length).next_multiple_of(page));
        first | ((end - first) / page + 1)
    });
    tls::set_fork(std::ptr::without_provenance_mut::<u8>(note));
}

/// Runs in the child, on its only thread.
unsafe extern "C" fn in_child() {
    let note = tls::get_fork::<u8>().addr();
    if note == 0 {
        return;
    }
    tls::set_fork::<u8>(null_mut());
    let (start, pages) = (note & !(page() - 1), note & (page() - 1));
    let length = if pages == page() - 1 { WHOLE.load(SeqCst) } else { (pages - 1) * page() };
    let place: *mut libc::c_void = std::ptr::with_exposed_provenance_mut(start);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: maps only a range that the fork has left without a mapping, never one that is in use. A kernel before
    // 4.17 may choose another range, which is unmapped again. The key is ours: its destructor must not get the old
    // state.
    unsafe {
        if length > 0 {
            let made = libc::mmap(place, length, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
            if made != place && made != libc::MAP_FAILED {
                libc::munmap(made, length);
            }
        }
        tls::set::<Thread>(null_mut());
        let key = KEY.load(SeqCst);
        if key != 0 {
            libc::pthread_setspecific(key - 1, null_mut());
        }
    }
}
