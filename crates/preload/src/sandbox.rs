//! A filter of system calls (seccomp) that the process sets for itself. In: the calls that set one. Out: whether there is a filter. If
//! there is one, the preload makes no calls that the program would not make: waits give nothing back, and the proof has no last line.
//!
//! Some processes let the kernel kill them at an unexpected call, such as sshd's child before the login, or a browser's renderer. This
//! file does not notice a filter that was set before the program began, such as a container's or systemd's `SystemCallFilter=`.

use std::ffi::{c_int, c_long};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::raw;

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
    look(libc::SYS_prctl, option as usize, answer as c_long);
    raw::c_answer(answer) as c_int
}

/// Checks a system call that has been made. A call that failed has set no filter: programs make such calls to find out what is
/// possible.
#[inline]
pub fn look(number: c_long, first: usize, answer: c_long) {
    let sets = match number {
        libc::SYS_prctl => first == libc::PR_SET_SECCOMP as usize,
        libc::SYS_seccomp => first <= libc::SECCOMP_SET_MODE_FILTER as usize,
        _ => false,
    };
    if sets && answer >= 0 {
        ENTERED.store(true, Ordering::Relaxed);
    }
}

/// Exports the functions by which a process sets a filter for itself.
#[macro_export]
macro_rules! sandboxes {
    () => {
        $crate::__syscall!();
        $crate::__functions! {
            fn prctl(option: c_int, a: usize, b: usize, c: usize, d: usize) -> c_int = $crate::sandbox::prctl(option, [a, b, c, d]);
        }
    };
}
