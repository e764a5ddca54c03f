//! Sleeps. In: nanosleep, clock_nanosleep, usleep, sleep. Out: the C library's answers.

use std::ffi::{c_int, c_uint};

use libc::{clockid_t, timespec};

use super::fds;
use super::reals::{missing, reals};
use super::split::{between, first_of};
use super::times::{self, Nanos, nanos_of, timespec};
use crate::raw;

type Nanosleep = unsafe extern "C" fn(*const timespec, *mut timespec) -> c_int;
type ClockNanosleep = unsafe extern "C" fn(clockid_t, c_int, *const timespec, *mut timespec) -> c_int;

reals! {
    nanosleep: c"nanosleep" Nanosleep,
    clock_nanosleep: c"clock_nanosleep" ClockNanosleep,
}

/// C's `nanosleep`.
///
/// # Safety
///
/// C's contract.
pub unsafe fn nanosleep(wanted: *const timespec, left: *mut timespec) -> c_int {
    let Some(real) = REAL.nanosleep() else { return missing() };
    // SAFETY: null, or a whole structure.
    let total = unsafe { wanted.as_ref() }.and_then(nanos_of);
    let Some((total, first)) = total.and_then(|total| Some((total, first_of(Some(total))?))) else {
        // SAFETY: the caller's promise.
        return unsafe { real(wanted, left) };
    };
    let until = times::Until::after(Some(total));
    // SAFETY: whole structures.
    let slept = unsafe { real(&timespec(first), std::ptr::null_mut()) };
    // SAFETY: whole structures.
    let rest = |nanos| unsafe { real(&timespec(nanos), std::ptr::null_mut()) == 0 };
    if slept == 0 && second(until.left().unwrap_or(0), rest) {
        return 0;
    }
    let errno = raw::errno();
    tell(left, until.left().unwrap_or(0));
    raw::set_errno(if slept == 0 { libc::EINTR } else { errno });
    -1
}

/// C's `usleep`. The C library's `usleep` calls its own `nanosleep`, not the one above.
///
/// # Safety
///
/// C's contract.
pub unsafe fn usleep(micros: c_uint) -> c_int {
    // SAFETY: a whole structure, and nobody wants to know what is left.
    unsafe { nanosleep(&timespec(Nanos::from(micros) * 1000), std::ptr::null_mut()) }
}

/// C's `sleep`, which returns the whole seconds that are left.
///
/// # Safety
///
/// C's contract.
pub unsafe fn sleep(seconds: c_uint) -> c_uint {
    let wanted = timespec { tv_sec: libc::time_t::from(seconds), tv_nsec: 0 };
    let (errno, mut left) = (raw::errno(), wanted);
    // SAFETY: whole structures.
    if unsafe { nanosleep(&wanted, &mut left) } != 0 {
        return left.tv_sec.try_into().unwrap_or(seconds);
    }
    raw::set_errno(errno);
    0
}

/// C's `clock_nanosleep`, which returns the error number.
///
/// # Safety
///
/// C's contract.
pub unsafe fn clock_nanosleep(clock: clockid_t, flags: c_int, wanted: *const timespec, left: *mut timespec) -> c_int {
    let Some(real) = REAL.clock_nanosleep() else { return libc::ENOSYS };
    // SAFETY: null, or a whole structure.
    let given = unsafe { wanted.as_ref() }.and_then(nanos_of);
    // A sleep is not split if its clock does not run like the monotonic clock, or if it ends at a time of a clock that
    // can be set.
    let total = match (clock, flags) {
        (libc::CLOCK_MONOTONIC | libc::CLOCK_REALTIME, 0) => given,
        (libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME) => given.map(|end| end.saturating_sub(times::monotonic())),
        _ => None,
    };
    let Some((total, first)) = total.and_then(|total| Some((total, first_of(Some(total))?))) else {
        // SAFETY: the caller's promise.
        return unsafe { real(clock, flags, wanted, left) };
    };
    let until = times::Until::after(Some(total));
    // SAFETY: whole structures.
    let error = unsafe { real(libc::CLOCK_MONOTONIC, 0, &timespec(first), std::ptr::null_mut()) };
    // SAFETY: whole structures.
    let rest = |nanos| unsafe { real(libc::CLOCK_MONOTONIC, 0, &timespec(nanos), std::ptr::null_mut()) == 0 };
    if error == 0 && second(until.left().unwrap_or(0), rest) {
        return 0;
    }
    if flags == 0 {
        tell(left, until.left().unwrap_or(0));
    }
    if error == 0 { libc::EINTR } else { error }
}

/// The second part of a sleep. If the program has entered a sandbox, `rest` sleeps instead. Returns whether the sleep
/// was complete.
fn second(nanos: Nanos, rest: impl FnOnce(Nanos) -> bool) -> bool {
    let errno = raw::errno();
    let Some(before) = between() else { return rest(nanos) };
    let slept = fds::sleep(nanos, before);
    before.restore();
    raw::set_errno(errno);
    slept == Some(0)
}

fn tell(left: *mut timespec, nanos: Nanos) {
    // SAFETY: null, or a place for one.
    if let Some(left) = unsafe { left.as_mut() } {
        *left = timespec(nanos);
    }
}
