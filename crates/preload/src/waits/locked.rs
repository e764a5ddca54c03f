//! Condition variables. In: pthread_cond_wait and similar functions. Out: the C library's answers.
//!
//! These waits cannot be split. Between two waits the thread would be in no queue. It would miss a signal sent then, and nothing in
//! memory shows that there was one. So the thread gives memory back before it waits, with the caller's mutex locked, at most once in
//! the time of `thread_idle`.

use std::ffi::{c_int, c_void};

use libc::{clockid_t, timespec};

use super::reals::reals;
use super::split::{before, first_of};
use super::times::{self, Nanos, nanos_of};

type Wait = unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int;
type Timedwait = unsafe extern "C" fn(*mut c_void, *mut c_void, *const timespec) -> c_int;
type Clockwait = unsafe extern "C" fn(*mut c_void, *mut c_void, clockid_t, *const timespec) -> c_int;

reals! {
    wait: c"pthread_cond_wait" Wait,
    timedwait: c"pthread_cond_timedwait" Timedwait,
    clockwait: c"pthread_cond_clockwait" Clockwait,
}

/// C's `pthread_cond_wait`. The allocator's own threads wait with `gives_back` off, because they hold its locks.
///
/// # Safety
///
/// C's contract.
#[inline]
pub unsafe fn wait(condition: *mut c_void, mutex: *mut c_void, gives_back: bool) -> c_int {
    let Some(real) = REAL.wait() else { return libc::ENOSYS };
    if gives_back {
        before(None);
    }
    // SAFETY: the caller's promise.
    unsafe { real(condition, mutex) }
}

/// C's `pthread_cond_timedwait`.
///
/// # Safety
///
/// C's contract.
#[inline]
pub unsafe fn timedwait(
    condition: *mut c_void,
    mutex: *mut c_void,
    end: *const timespec,
    gives_back: bool,
) -> c_int {
    let Some(real) = REAL.timedwait() else { return libc::ENOSYS };
    if gives_back && first_of(None).is_some() {
        // Only the condition variable knows which clock `end` belongs to. The shorter of the two possible times is used. SAFETY: null,
        // or a whole structure.
        if let Some(end) = unsafe { end.as_ref() }.and_then(nanos_of) {
            let left = |clock| end.saturating_sub(times::now(clock));
            let of_the_day = left(libc::CLOCK_REALTIME);
            before(Some(if of_the_day > 0 { of_the_day } else { left(libc::CLOCK_MONOTONIC) }));
        }
    }
    // SAFETY: the caller's promise.
    unsafe { real(condition, mutex, end) }
}

/// C's `pthread_cond_clockwait`.
///
/// # Safety
///
/// C's contract.
#[inline]
pub unsafe fn clockwait(condition: *mut c_void, mutex: *mut c_void, clock: clockid_t, end: *const timespec) -> c_int {
    let Some(real) = REAL.clockwait() else { return libc::ENOSYS };
    if first_of(None).is_some() {
        // SAFETY: null, or a whole structure.
        let left = unsafe { end.as_ref() }.and_then(nanos_of).map(|end: Nanos| end.saturating_sub(times::now(clock)));
        before(Some(left.unwrap_or(0)));
    }
    // SAFETY: the caller's promise.
    unsafe { real(condition, mutex, clock, end) }
}
