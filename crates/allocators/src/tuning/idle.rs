//! Threads that are about to wait. In: calls of a thread, before it waits. Out: what it kept for itself is the system's again.

use std::time::Duration;

use crate::allocator::Allocator;
use crate::error::{Error, Result};
use crate::idle::{self, Thread};
use crate::install::{installation, installed};

thread_local! {
    /// Without a destructor: it can be used until the thread's stack is gone.
    static THREAD: Thread = const { Thread::new() };
}

/// Tells the allocator that the calling thread is about to wait: what the thread keeps for itself goes back to the system.
/// Whether it was time, and giving back was tried.
///
/// To be called before each wait, by each thread that waits. Cheap: it does nothing unless `idle_every_ms` (100 unless
/// `install!` or the variable `ALLOCANARY_IDLE_EVERY_MS` says otherwise) have passed since this thread's last time and a hundred
/// times what that took, and with jemalloc the thread has allocated and freed 16 KiB since. `idle = keep` in `install!`, or
/// `ALLOCANARY_IDLE=keep`, turns it off.
///
/// - jemalloc: the thread's cache is flushed and the thread's arena purged.
/// - mimalloc: the thread's heap is collected, with force, and the arenas purged.
/// - glibc: free memory in pieces of 8 KiB and more of the thread's arena. What stays: smaller pieces, and the thread's cache,
///   which no call empties (before glibc 2.42 7 blocks of each of 64 sizes up to 1032 bytes, 231 KiB at most;
///   `GLIBC_TUNABLES=glibc.malloc.tcache_count=0` is without). A thread that has never allocated gets an arena by it.
///
/// A thread that comes back before `idle_every_ms` are over keeps what it has then, for however long it waits. Where the
/// wait can have a time limit, [`wait`] is better.
///
/// Not for signal handlers: it takes the allocator's locks, as `malloc` does.
#[inline]
pub fn thread_idle() -> Result<bool> {
    let allocator = installed().ok_or(Error::NotInstalled)?;
    match idle::every() {
        Some(every) => give_back(allocator, every),
        None => Ok(false),
    }
}

/// Waits twice: for a `short` time first, and then, if nothing came, after what the thread keeps was given back. A thread
/// that has work to do never pays.
///
/// `wait_for` waits for at most the time that it is given and says what came, or `None` where nothing did. It is called until
/// something comes. What cannot be given back (no allocator installed, `idle = keep`) is not, and the wait is the same: so it is with musl's malloc.
///
/// ```
/// use std::sync::mpsc::{RecvTimeoutError, channel};
/// use std::time::Duration;
///
/// let (sender, receiver) = channel();
/// sender.send(7).unwrap();
/// let came = allocanary::tuning::wait(Duration::from_millis(10), |timeout| match receiver.recv_timeout(timeout) {
///     Err(RecvTimeoutError::Timeout) => None,
///     came => Some(came),
/// });
/// assert_eq!(came, Ok(7));
/// ```
pub fn wait<T>(short: Duration, wait_for: impl FnMut(Duration) -> Option<T>) -> T {
    let waits = || {
        if let (Some(allocator), Some(_)) = (installed(), idle::every()) {
            let _ = give_back(allocator, Duration::ZERO); // an allocator that cannot says so in `check`
        }
    };
    idle::wait_twice(short, waits, wait_for)
}

/// What is wrong with what was asked for idle threads.
pub(super) fn problems(allocator: &dyn Allocator) -> Vec<String> {
    // A time that never comes: asked, and nothing done.
    let cannot = allocator.thread_idle(&Thread::new(), Duration::MAX).err();
    installation()
        .map_or_else(Vec::new, |installation| idle::problems(installation.idle, cannot.map(|error| error.to_string())))
}

#[doc(hidden)]
/// [`thread_idle`] for an allocator that no `install!` has installed: gives back what the calling thread keeps in it, if
/// `every` has passed since this thread's last time.
#[inline]
pub fn give_back(allocator: &dyn Allocator, every: Duration) -> Result<bool> {
    THREAD.with(|thread| {
        let gave_back = allocator.thread_idle(thread, every)?;
        if gave_back {
            thread.end();
        }
        Ok(gave_back)
    })
}
