//! Notices that the process gives itself a filter of system calls (seccomp), or forbids itself the time-stamp counter. In: the calls that
//! do so. Out: whether one of them has succeeded. The preload then makes no calls that the program would not make: waits give nothing back,
//! and the proof has no last line.
//!
//! Some processes, such as sshd's child before the login or a browser's renderer, let the kernel kill them at an unexpected call. This file
//! does not notice a filter that was set before the program began, such as a container's or systemd's `SystemCallFilter=`.

use std::ffi::{c_int, c_long};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::raw;
use crate::real::Real;

static ENTERED: AtomicBool = AtomicBool::new(false);

/// Whether the process has given itself a filter.
#[inline]
pub fn is_entered() -> bool {
    ENTERED.load(Ordering::Relaxed)
}

/// C's `prctl`.
///
/// # Safety
///
/// The arguments are what the kernel's call asks for.
pub unsafe fn prctl(option: c_int, arguments: [usize; 4]) -> c_int {
    let [a, b, c, d] = arguments;
    // SAFETY: the caller's promise.
    let answer = unsafe { raw::call(libc::SYS_prctl, [option as usize, a, b, c, d, 0]) };
    look(libc::SYS_prctl, [option as usize, a, b], answer as c_long);
    raw::c_answer(answer) as c_int
}

/// Checks a system call that has been made. A call that failed has set no filter: programs make such calls to find out what is
/// possible.
#[inline]
pub fn look(number: c_long, first: [usize; 3], answer: c_long) {
    if confines(number, first) && answer >= 0 {
        ENTERED.store(true, Ordering::Relaxed);
    }
}

/// Whether a system call with these first arguments confines the process, if it succeeds. A call without a filter's program only tests
/// whether filters are supported, and fails. A process that forbids itself the time-stamp counter must not read it, but the C library's
/// clocks do.
#[inline]
pub fn confines(number: c_long, [a, b, c]: [usize; 3]) -> bool {
    match (number, a as i32) {
        (libc::SYS_prctl, libc::PR_SET_SECCOMP) => b == libc::SECCOMP_MODE_STRICT as usize || c != 0,
        (libc::SYS_prctl, libc::PR_SET_TSC) => b == libc::PR_TSC_SIGSEGV as usize,
        (libc::SYS_seccomp, _) => match a as u32 {
            libc::SECCOMP_SET_MODE_STRICT => true,
            libc::SECCOMP_SET_MODE_FILTER => c != 0,
            _ => false,
        },
        _ => false,
    }
}

/// Exports the functions by which a process sets a filter for itself.
#[macro_export]
macro_rules! sandboxes {
    () => {
        $crate::__syscall!($crate::called::other);
        $crate::__functions! {
            fn prctl(option: c_int, a: usize, b: usize, c: usize, d: usize) -> c_int = $crate::sandbox::prctl(option, [a, b, c, d]);
        }
    };
}

/// The next library's functions: another preload behind this one may look at the calls as well.
static SYSCALL: Real = Real::new(c"syscall");
static PRCTL: Real = Real::new(c"prctl");

/// Passes on a system call that begins no child. Calls `before` first if the call confines the process.
///
/// # Safety
///
/// C's contract of `syscall`.
pub unsafe fn passed_on(number: c_long, arguments: [usize; 6], before: fn()) -> c_long {
    type Syscall = unsafe extern "C" fn(c_long, usize, usize, usize, usize, usize, usize) -> c_long;
    let [a, b, c, d, e, f] = arguments;
    if confines(number, [a, b, c]) {
        before();
    }
    // SAFETY: the C library's function of that name has this type; the caller's promise.
    unsafe {
        match SYSCALL.function::<Syscall>() {
            Some(next) => next(number, a, b, c, d, e, f),
            None => raw::c_answer(raw::call(number, arguments)),
        }
    }
}

/// Passes on C's `prctl`. Calls `before` first if the call confines the process.
///
/// # Safety
///
/// C's contract of `prctl`.
pub unsafe fn prctl_passed_on(option: c_int, arguments: [usize; 4], before: fn()) -> c_int {
    type Prctl = unsafe extern "C" fn(c_int, usize, usize, usize, usize) -> c_int;
    let [a, b, c, d] = arguments;
    if confines(libc::SYS_prctl, [option as usize, a, b]) {
        before();
    }
    // SAFETY: as above.
    unsafe {
        match PRCTL.function::<Prctl>() {
            Some(next) => next(option, a, b, c, d),
            None => raw::c_answer(raw::call(libc::SYS_prctl, [option as usize, a, b, c, d, 0])) as c_int,
        }
    }
}

/// Exports the same functions for a library that is loaded before others. They call `$before` ahead of a call that confines the process,
/// and pass each call on to the next library.
#[macro_export]
macro_rules! before_sandboxes {
    ($before:path) => {
        $crate::__syscall!(__any_call);
        $crate::__functions! {
            fn prctl(option: ::core::ffi::c_int, a: usize, b: usize, c: usize, d: usize) -> ::core::ffi::c_int =
                $crate::sandbox::prctl_passed_on(option, [a, b, c, d], $before);
        }

        unsafe extern "C" fn __any_call(
            number: ::core::ffi::c_long,
            a: usize,
            b: usize,
            c: usize,
            d: usize,
            e: usize,
            f: usize,
        ) -> ::core::ffi::c_long {
            // SAFETY: the program's own call, which is passed on as it is.
            unsafe { $crate::sandbox::passed_on(number, [a, b, c, d, e, f], $before) }
        }
    };
}
