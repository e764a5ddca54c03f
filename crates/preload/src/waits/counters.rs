//! Waits for a number in memory to change. In: futex through `syscall`, sem_wait, sem_timedwait, sem_clockwait. Out: the kernel's and
//! the C library's answers.
//!
//! Between the two waits the thread is in no queue. This is safe for both kinds. A semaphore keeps its count. A thread that wakes a
//! futex changes the number first, because a waiter may not have reached the queue yet; the second wait sees the change and returns
//! EAGAIN, which is reported as a wake-up.
//!
//! After a handler with `SA_RESTART`, the kernel restarts a wait without a time-out. Our first wait has a time-out, so the kernel
//! never restarts it. If all handlers of the process have `SA_RESTART`, we wait again. Otherwise the result is EINTR: a program that
//! has a handler without `SA_RESTART` must expect it.

use std::ffi::{c_int, c_long};

use libc::{clockid_t, sem_t, timespec};

use super::reals::{missing, reals};
use super::split::{between, first_of};
use super::times::{self, Nanos, nanos_of, timespec};
use crate::handlers::signals;
use crate::{cores, raw};

type SemWait = unsafe extern "C" fn(*mut sem_t) -> c_int;
type SemTimedwait = unsafe extern "C" fn(*mut sem_t, *const timespec) -> c_int;
type SemClockwait = unsafe extern "C" fn(*mut sem_t, clockid_t, *const timespec) -> c_int;

reals! {
    sem_wait: c"sem_wait" SemWait,
    sem_timedwait: c"sem_timedwait" SemTimedwait,
    sem_clockwait: c"sem_clockwait" SemClockwait,
}

/// C's `syscall`.
///
/// # Safety
///
/// C's contract: the arguments are what the call asks for.
#[inline]
pub unsafe fn syscall(number: c_long, arguments: [usize; 6]) -> c_long {
    // SAFETY: the caller's promise.
    raw::c_answer(unsafe {
        match number {
            libc::SYS_futex => futex(arguments),
            libc::SYS_exit_group => crate::end::exit(arguments[0] as c_int),
            // The arguments are the process ID, the size and the mask.
            libc::SYS_sched_getaffinity => {
                cores::affinity(arguments[0] as i32, arguments[1], arguments[2] as *mut std::ffi::c_void)
            }
            _ => raw::call(number, arguments),
        }
    })
}

/// # Safety
///
/// The arguments are those of a futex call.
unsafe fn futex(arguments: [usize; 6]) -> isize {
    let [place, operation, value, timeout, second_place, bits] = arguments;
    // SAFETY: the caller's promise; the time-out is ours or the caller's.
    let call = |timeout: *const timespec| unsafe {
        raw::call(libc::SYS_futex, [place, operation, value, timeout as usize, second_place, bits])
    };
    let given = timeout as *const timespec;
    let command = operation as c_int & !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME);
    let clock = match operation as c_int & libc::FUTEX_CLOCK_REALTIME {
        0 => libc::CLOCK_MONOTONIC,
        _ => libc::CLOCK_REALTIME,
    };
    // The time-out of a plain wait is a duration; that of a wait for bits is a point in time.
    let base = match command {
        libc::FUTEX_WAIT => 0,
        libc::FUTEX_WAIT_BITSET if first_of(None).is_some() => times::now(clock),
        _ => return call(given),
    };
    if first_of(None).is_none() {
        return call(given);
    }
    // SAFETY: null, or a whole structure.
    let end = unsafe { given.as_ref() }.map(nanos_of);
    let total = end.flatten().map(|end| end.saturating_sub(base));
    let Some(first) = first_of(total).filter(|_| end != Some(None)) else { return call(given) };
    let until = times::Until::after(total);
    loop {
        let came = call(&timespec(base_now(command, clock) + first));
        match came.unsigned_abs() as c_int {
            libc::ETIMEDOUT => break,
            libc::EINTR if total.is_none() && signals::all_restart() => {}
            _ => return came,
        }
    }
    if between().is_some_and(|before| before.restore_and_tell(total.is_none())) {
        return -libc::EINTR as isize;
    }
    let came = match (command, until.left()) {
        (libc::FUTEX_WAIT, Some(left)) => call(&timespec(left)),
        _ => call(given),
    };
    if came == -libc::EAGAIN as isize { 0 } else { came }
}

/// The present time of the clock by which the kernel measures the time-out of this command; 0 for a duration.
fn base_now(command: c_int, clock: clockid_t) -> Nanos {
    if command == libc::FUTEX_WAIT { 0 } else { times::now(clock) }
}

/// C's `sem_wait`.
///
/// # Safety
///
/// C's contract.
pub unsafe fn sem_wait(semaphore: *mut sem_t) -> c_int {
    let Some(real) = REAL.sem_wait() else { return missing() };
    // SAFETY: the caller's promise.
    unsafe { twice(semaphore, None, true, || real(semaphore)) }
}

/// C's `sem_timedwait`, until a time of the clock of the day.
///
/// # Safety
///
/// C's contract.
pub unsafe fn sem_timedwait(semaphore: *mut sem_t, end: *const timespec) -> c_int {
    let Some(real) = REAL.sem_timedwait() else { return missing() };
    // SAFETY: the caller's promise.
    unsafe {
        let left = end.as_ref().and_then(nanos_of).map(|end| end.saturating_sub(times::now(libc::CLOCK_REALTIME)));
        twice(semaphore, left, false, || real(semaphore, end))
    }
}

/// C's `sem_clockwait`.
///
/// # Safety
///
/// C's contract.
pub unsafe fn sem_clockwait(semaphore: *mut sem_t, clock: clockid_t, end: *const timespec) -> c_int {
    let Some(real) = REAL.sem_clockwait() else { return missing() };
    // SAFETY: the caller's promise.
    unsafe {
        let left = end.as_ref().and_then(nanos_of).map(|end| end.saturating_sub(times::now(clock)));
        twice(semaphore, left, false, || real(semaphore, clock, end))
    }
}

/// Waits for a semaphore, then gives memory back, then waits for the rest of the time. An `endless` wait has no `total`. A wait that
/// is not endless and has no `total` has an invalid time-out, and is not split.
///
/// # Safety
///
/// `semaphore` points to a semaphore.
unsafe fn twice(semaphore: *mut sem_t, total: Option<Nanos>, endless: bool, wait: impl Fn() -> c_int) -> c_int {
    let may_split = endless || total.is_some();
    let (Some(first), Some(short)) = (first_of(total).filter(|_| may_split), REAL.sem_clockwait()) else {
        return wait();
    };
    let errno = raw::errno();
    loop {
        // SAFETY: the caller's promise, and a whole structure.
        let came = unsafe { short(semaphore, libc::CLOCK_MONOTONIC, &timespec(times::monotonic() + first)) };
        match raw::errno() {
            _ if came == 0 => return 0,
            libc::ETIMEDOUT => break,
            libc::EINTR if endless && signals::all_restart() => {}
            _ => return came,
        }
    }
    raw::set_errno(errno);
    if between().is_some_and(|before| before.restore_and_tell(endless)) {
        raw::set_errno(libc::EINTR);
        return -1;
    }
    wait()
}
