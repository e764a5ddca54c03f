//! A filter of system calls (seccomp) that the process sets for itself, or a time-stamp counter that it forbids itself. In: the calls
//! that do so. Out: whether there is one of them. If there is, the preload makes no calls that the program would not make: waits give nothing back, and the proof has no last line.
//!
//! Some processes let the kernel kill them at an unexpected call, such as sshd's child before the login, or a browser's renderer. This
//! file does not notice a filter that was set before the program began, such as a container's or systemd's `SystemCallFilter=`.

use std::ffi::{c_int, c_long};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::raw;

/// The number of `prctl`.
pub const PRCTL: c_long = libc::SYS_prctl;

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

/// Whether a system call with these first arguments confines the process, if it succeeds. Without a filter's program it only asks whether
/// filters are supported, and fails. A counter that ends the thread is no more to be read, and the C library's clocks read it.
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

/// Exports the same functions, and calls `$before` ahead of one that confines the process.
#[macro_export]
macro_rules! before_sandboxes {
    ($before:path) => {
        $crate::__syscall!(__any_call);
        $crate::__functions! {
            fn prctl(option: ::core::ffi::c_int, a: usize, b: usize, c: usize, d: usize) -> ::core::ffi::c_int =
                __any_call($crate::sandbox::PRCTL, option as usize, a, b, c, d, 0) as ::core::ffi::c_int;
        }

        /// Any call that begins no child.
        unsafe extern "C" fn __any_call(
            number: ::core::ffi::c_long,
            a: usize,
            b: usize,
            c: usize,
            d: usize,
            e: usize,
            f: usize,
        ) -> ::core::ffi::c_long {
            if $crate::sandbox::confines(number, [a, b, c]) {
                $before();
            }
            // SAFETY: the program's own call, which is passed on as it is.
            $crate::raw::c_answer(unsafe { $crate::raw::call(number, [a, b, c, d, e, f]) })
        }
    };
}
