//! Waits of a program that cannot be changed, for the setting `thread_idle`. In: the C library's waiting functions. Out: the same
//! answers. The unused memory of a waiting thread goes back to the system.
//!
//! Without the setting, each function here calls the next library's function. With `thread_idle=100ms`:
//!
//! - [`fds`] (epoll_wait, epoll_pwait, poll, ppoll, select, pselect), [`sleeps`] (nanosleep, clock_nanosleep) and [`counters`] (futex,
//!   sem_wait and similar functions) wait twice. They wait for 100 ms. If nothing came, they give the thread's unused memory back, and
//!   wait for the rest of the time. A thread that gets work within 100 ms pays nothing.
//! - [`locked`] (condition variables) and accept cannot wait twice: a signal to a condition variable between the two waits would be
//!   lost. They give memory back before they wait, at most once in 100 ms.
//!
//! Signals are blocked between the two waits. The second wait then reports a signal that came.

pub mod counters;
pub mod fds;
pub mod locked;
pub mod sleeps;
mod times;

use std::cell::Cell;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::time::Duration;

use crate::handlers::signals::Mask;
use crate::this::This;
use crate::{budget, gave_back, handlers, raw, sandbox};
use times::Nanos;

/// The first wait, in nanoseconds; 0 if threads give nothing back.
static EVERY: AtomicU64 = AtomicU64::new(0);
/// The allocator inside.
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

/// Finds the next library's functions. A signal handler may be the first to call one, and must not look it up itself.
#[inline]
pub(crate) fn find() {
    fds::REAL.find();
    sleeps::REAL.find();
    counters::REAL.find();
    locked::REAL.find();
}

/// The time of the first wait. `None` if the setting is off, or once the program has entered a sandbox.
#[inline]
fn every() -> Option<Nanos> {
    Some(EVERY.load(Ordering::Acquire)).filter(|every| *every > 0 && !sandbox::is_entered())
}

/// The time of the first part of a wait for at most `total`; a `total` of `None` means without end. Returns `None` if the wait is not
/// split.
#[inline]
fn first_of(total: Option<Nanos>) -> Option<Nanos> {
    budget::before_wait();
    every().filter(|every| total.is_none_or(|total| total > *every))
}

/// Between the two waits: gives the thread's unused memory back, with all signals blocked. Returns the previous mask. Returns `None`
/// if the program has entered a sandbox during the first wait; the program's own call then waits for the rest of the time.
#[cold]
fn between() -> Option<Mask> {
    every()?;
    let before = Mask::block();
    give_back(Duration::ZERO, before);
    Some(before)
}

/// Gives memory back before a wait of at most `total` that cannot be split.
#[inline]
fn before(total: Option<Nanos>) {
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
        if allocanary_allocators::give_back_heap(this.allocator, every) == Ok(true) {
            gave_back::count();
        }
    });
    raw::set_errno(errno);
}

/// Does work during which the thread is not cancelled. A thread with `PTHREAD_CANCEL_ASYNCHRONOUS` may be cancelled at any
/// instruction, and would leave the allocator's locks locked. The C library's signal for this cannot be blocked. A cancellation that
/// came during the work happens at the end, in the function that sets the cancel type. The function that sets the state must not carry
/// it out: in glibc 2.36 it forgets that the thread's result must be `PTHREAD_CANCELED`.
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

/// Makes the table of the next library's functions.
macro_rules! reals {
    ($($name:ident: $text:literal $type:ty,)*) => {
        /// The next library's functions.
        pub(crate) struct Reals {
            $($name: crate::real::Real,)*
        }
        /// The next library's functions.
        pub(crate) static REAL: Reals = Reals { $($name: crate::real::Real::new($text),)* };
        impl Reals {
            /// Looks all of them up.
            #[inline]
            pub(crate) fn find(&self) {
                $(self.$name();)*
            }
            $(
                #[inline]
                fn $name(&self) -> Option<$type> {
                    // SAFETY: the C library's function of that name has this type.
                    unsafe { self.$name.function() }
                }
            )*
        }
    };
}
use reals;

/// The answer of a function that the C library does not have.
fn missing() -> libc::c_int {
    raw::set_errno(libc::ENOSYS);
    -1
}
