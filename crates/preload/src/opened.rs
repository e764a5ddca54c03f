//! Libraries that a program opens. In: C's dlopen and dlmopen. Out: the same calls, without `RTLD_DEEPBIND`.
//!
//! A library that is opened with this flag finds the C library's own `malloc` and `free` before those of a preload. Its `free` then
//! gets blocks of another allocator, and the program crashes. Without the flag the library finds the same functions as the program.

use std::ffi::{c_int, c_void};

use crate::raw;
use crate::real::Real;

static DLOPEN: Real = Real::new(c"dlopen");
static DLMOPEN: Real = Real::new(c"dlmopen");

/// Looks up the next library's functions.
#[inline]
pub(crate) fn find() {
    real_dlopen();
    real_dlmopen();
}

/// The next library's dlopen; never null.
#[inline]
pub extern "C" fn real_dlopen() -> *mut c_void {
    found(&DLOPEN)
}

/// The next library's dlmopen; never null.
#[inline]
pub extern "C" fn real_dlmopen() -> *mut c_void {
    found(&DLMOPEN)
}

#[inline]
fn found(real: &Real) -> *mut c_void {
    // SAFETY: an address has the size of a pointer.
    unsafe { real.function() }.unwrap_or(missing as *mut c_void)
}

/// The function that is called if the C library has no such function.
extern "C" fn missing() -> *mut c_void {
    raw::set_errno(libc::ENOSYS);
    std::ptr::null_mut()
}

/// `RTLD_DEEPBIND`.
pub const DEEPBIND: c_int = libc::RTLD_DEEPBIND;

/// Exports dlopen and dlmopen. Once in a binary.
///
/// The C library searches for a library by the *caller's* `RUNPATH`, and finds the caller by the return address. So the exported
/// functions do not call the C library's functions: they jump, which keeps the return address.
#[macro_export]
macro_rules! opened_libraries {
    () => {
        $crate::__opened!(dlopen, real_dlopen, "esi", "w1");
        $crate::__opened!(dlmopen, real_dlmopen, "edx", "w2");
    };
}

/// Exports one of the two functions; the last arguments are the registers of its flags.
#[doc(hidden)]
#[macro_export]
macro_rules! __opened {
    ($name:ident, $real:ident, $flags_x86:literal, $flags_arm:literal) => {
        #[cfg(target_arch = "x86_64")]
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name() {
            ::core::arch::naked_asm!(
                "endbr64",
                concat!("and ", $flags_x86, ", {kept}"),
                "push rdi", "push rsi", "push rdx",
                "call {real}",
                "pop rdx", "pop rsi", "pop rdi",
                "jmp rax",
                kept = const !$crate::opened::DEEPBIND,
                real = sym $crate::opened::$real,
            )
        }
        #[cfg(target_arch = "aarch64")]
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name() {
            ::core::arch::naked_asm!(
                "hint #34", // a valid target of a call, if the processor checks this (BTI)
                concat!("and ", $flags_arm, ", ", $flags_arm, ", {kept}"),
                "stp x29, x30, [sp, #-48]!", "stp x0, x1, [sp, #16]", "str x2, [sp, #32]",
                "bl {real}",
                "mov x16, x0",
                "ldr x2, [sp, #32]", "ldp x0, x1, [sp, #16]", "ldp x29, x30, [sp], #48",
                "br x16",
                kept = const !$crate::opened::DEEPBIND,
                real = sym $crate::opened::$real,
            )
        }
    };
}
