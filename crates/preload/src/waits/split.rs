//! A wait in two parts, or with memory given back before it. In: the setting. Out: the time of the first part, and the thread's unused
//! memory, which goes back to the system.

use std::cell::Cell;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::time::Duration;

use super::times::{self, Nanos};
use crate::handlers::signals::Mask;
use crate::this::This;
use crate::{budget, gave_back, handlers, raw, sandbox};

/// The first wait, in nanoseconds; 0 if threads give nothing back.
static EVERY: AtomicU64 = AtomicU64::new(0);
/// The preload, which has the allocator.
static THIS: AtomicPtr<This> = AtomicPtr::new(std::ptr::null_mut());

thread_local! {
    /// When this thread last gave memory back before a wait. The variable has no destructor, so it can be used until the thread's end.
    static LAST: Cell<Nanos> = const { Cell::new(0) };
}

/// Turns the setting on, in the constructor.
pub(crate) fn turn_on(this: &'static This, every: Duration) {
    handlers::learn();
    THIS.store(std::ptr::from_ref(this).cast_mut(), Ordering::Relaxed);
    EVERY.store(every.as_nanos() as Nanos, Ordering::Release);
}

/// The time of the first wait. `None` if the setting is off, or once the program has entered a sandbox.
#[inline]
fn every() -> Option<Nanos> {
    Some(EVERY.load(Ordering::Acquire)).filter(|every| *every > 0 && !sandbox::is_entered())
}

/// The time of the first part of a wait for at most `total`; a `total` of `None` means without end. Returns `None` if the wait is not
/// split.
#[inline]
pub(super) fn first_of(total: Option<Nanos>) -> Option<Nanos> {
    budget::before_wait();
    every().filter(|every| total.is_none_or(|total| total > *every))
}

/// Between the two waits: gives the thread's unused memory back, with all signals blocked. Returns the previous mask. Returns `None`
/// if the program has entered a sandbox during the first wait; the program's own call then waits for the rest of the time.
#[cold]
pub(super) fn between() -> Option<Mask> {
    every()?;
    let before = Mask::block();
    give_back(Duration::ZERO, before);
    Some(before)
}

/// Gives memory back before a wait of at most `total` that cannot be split.
#[inline]
pub(super) fn before(total: Option<Nanos>) {
    if let Some(every) = first_of(total) {
        let now = times::coarse();
        if now.saturating_sub(LAST.get()) >= every {
            LAST.set(now);
            let mask = Mask::block();
            give_back(Duration::from_nanos(every), mask);
            mask.restore();
        }
    }
}

/// Gives back the calling thread's unused memory in the allocator. Does nothing in a signal handler, because the interrupted code may
/// hold the allocator's locks. Never gives back the unused part of the stack: a program may keep frames of another context there, such
/// as a coroutine's, and nothing shows this.
fn give_back(every: Duration, blocked: Mask) {
    // SAFETY: null, or the static that `turn_on` has stored.
    let Some(this) = (unsafe { THIS.load(Ordering::Relaxed).as_ref() }) else { return };
    if handlers::may_be_in_one(blocked) {
        return;
    }
    let errno = raw::errno();
    not_cancelled(|| {
        // An allocator that cannot do this was reported when the process started.
        if allocanary::give_back_heap(this.allocator, every) == Ok(true) {
            gave_back::count();
        }
    });
    raw::set_errno(errno);
}

/// Does work during which the thread is not cancelled. A thread with `PTHREAD_CANCEL_ASYNCHRONOUS` may be cancelled at any
/// instruction, and would leave the allocator's locks locked. The C library's signal for this cannot be blocked. A cancellation that
/// came during the work happens at the end, in the function that sets the cancel type. The function that sets the state must not cancel
/// the thread: in glibc 2.36 it forgets that the thread's result must be `PTHREAD_CANCELED`.
fn not_cancelled(work: impl FnOnce()) {
    unsafe extern "C" {
        fn pthread_setcancelstate(state: libc::c_int, before: *mut libc::c_int) -> libc::c_int;
        fn pthread_setcanceltype(kind: libc::c_int, before: *mut libc::c_int) -> libc::c_int;
    }
    const DISABLE: libc::c_int = 1;
    const DEFERRED: libc::c_int = 0;
    let (mut state, mut kind) = (0, 0);
    // SAFETY: these are C's functions, and the places belong to this thread.
    unsafe {
        pthread_setcancelstate(DISABLE, &mut state);
        pthread_setcanceltype(DEFERRED, &mut kind);
    }
    work();
    // SAFETY: as above. Nothing is left to be dropped in the frames of this thread's wait.
    unsafe {
        pthread_setcancelstate(state, std::ptr::null_mut());
        pthread_setcanceltype(kind, std::ptr::null_mut());
    }
}
