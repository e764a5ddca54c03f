//! Threads that are about to wait. In: a thread's call before it waits. Out: the memory that the thread kept goes back to the system.

use std::time::Duration;

use crate::allocator::Allocator;
use crate::error::{Error, Result};
use crate::idle::{self, IdleThread, Uncached};
use crate::install::{installation, installed};

thread_local! {
    /// It has no destructor, so it can be used until the thread's stack is gone.
    static THREAD: IdleThread = const { IdleThread::new() };
}

/// Tells the allocator that the calling thread is about to wait. The allocator then returns to the system the memory
/// that it keeps for this thread. Returns whether that was due and was tried.
///
/// Each thread that waits calls it before each wait. The call is cheap: it does nothing unless all of these are true:
///
/// - `give_back_every_ms` milliseconds have passed since this thread last gave memory back. The default is 100; `install!`
///   or the variable `ALLOCANARY_GIVE_BACK_EVERY_MS` changes it;
/// - 100 times the CPU time that giving it back took has passed too;
/// - with jemalloc: the thread has allocated and freed 16 KiB since.
///
/// `threads_give_back = false` in `install!`, or `ALLOCANARY_THREADS_GIVE_BACK=false`, turns it off.
///
/// What it does:
///
/// - jemalloc: flushes the thread's cache and purges the thread's arena.
/// - mimalloc: collects the thread's heap, with force, and purges the arenas.
/// - glibc: returns free memory of the thread's arena in pieces of 8 KiB and more. Smaller pieces stay. The thread's
///   cache stays too, because no call empties it (before glibc 2.42: 7 blocks of each of 64 sizes up to 1032 bytes, 231
///   KiB at most; `GLIBC_TUNABLES=glibc.malloc.tcache_count=0` turns the cache off). A thread that has never allocated
///   gets an arena by this call.
///
/// With each allocator it also returns the pages of the thread's stack that are not in use: those below the stack pointer.
/// It does not do so in the main thread, nor on a stack that the program made itself, such as a coroutine's. A program
/// that keeps other stacks *inside* a thread's own stack, such as a coroutine's stack in a local array, must not call it
/// there: the memory below the stack pointer may be a frame of the other stack.
///
/// A thread that waits again before `give_back_every_ms` have passed keeps its memory for that whole wait. Use [`wait`] if
/// the wait can have a time limit.
///
/// Returns [`Error::Unsupported`] with musl's malloc, and [`Error::NotInstalled`] without an `install!`.
///
/// Do not call it in signal handlers: it takes the allocator's locks, as `malloc` does.
#[inline]
pub fn thread_idle() -> Result<bool> {
    let allocator = installed().ok_or(Error::NotInstalled)?;
    match idle::every() {
        Some(every) => give_back(allocator, every),
        None => Ok(false),
    }
}

/// Waits in steps. The first wait takes a `short` time. If nothing came, the thread's memory goes back to the system,
/// and the second wait takes four times `short`. If still nothing came, memory goes back once more, for what other
/// threads have freed for this one meanwhile. The last wait takes until something comes. A thread that always has work
/// pays nothing.
///
/// During the last wait the thread has no jemalloc thread cache, because the cache's own structures need some 27 KiB for
/// each thread. They are in the first arena, which is purged then. The cache comes back when the wait ends.
///
/// `wait_for` waits for at most the given time and returns what came, or `None` if nothing came. It is called until
/// something comes. The wait is the same if no memory can be returned: with no allocator installed, with
/// `threads_give_back = false`, or with musl's malloc.
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
    let allocator = idle::every().and_then(|_| installed());
    idle::wait_in_steps(short, |last| give_back_in_wait(allocator?, last), wait_for)
}

/// Returns memory between two waits of [`wait`], for an allocator that no `install!` has installed. Keep the result until the wait is over.
pub fn give_back_in_wait(allocator: &dyn Allocator, last: bool) -> Option<Uncached> {
    let gave_back = give_back(allocator, Duration::ZERO).ok()?; // `check` reports an allocator that cannot do it
    (last && gave_back).then(|| allocator.uncached())
}

/// Invalid settings for idle threads, one line each.
pub(super) fn problems(allocator: &dyn Allocator) -> Vec<String> {
    // With the longest time no return is ever due: the call only finds out whether the allocator supports it.
    let cannot = allocator.thread_idle(&IdleThread::new(), Duration::MAX).err();
    installation()
        .map_or_else(Vec::new, |installation| idle::problems(installation.idle, cannot.map(|error| error.to_string())))
}

/// [`thread_idle`] for an allocator that no `install!` has installed. It gives back what the calling thread keeps in that allocator, if
/// `every` has passed since this thread's last return.
#[inline]
pub fn give_back(allocator: &dyn Allocator, every: Duration) -> Result<bool> {
    give_back_and(allocator, every, idle::give_back_stack)
}

/// Like [`give_back`], for an unknown program. Such a program may have other stacks inside a thread's own stack, so the thread's stack
/// stays as it is.
#[inline]
pub fn give_back_heap(allocator: &dyn Allocator, every: Duration) -> Result<bool> {
    give_back_and(allocator, every, || ())
}

#[inline]
fn give_back_and(allocator: &dyn Allocator, every: Duration, stack: impl FnOnce()) -> Result<bool> {
    THREAD.with(|thread| {
        let gave_back = allocator.thread_idle(thread, every)?;
        if gave_back {
            stack();
            thread.end();
        }
        Ok(gave_back)
    })
}
