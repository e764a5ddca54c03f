//! C's `syscall`, for a program that makes system calls through it. In: a number and its arguments. Out: the kernel's
//! answer.
//!
//! A call that begins a child on another stack (`clone`, `clone3`, `vfork`) is made without a stack frame of ours, as in the C library:
//! the child has the program's registers and its own stack, and returns to the address that the program has put there.

use std::ffi::c_long;

use crate::{raw, sandbox, waits};

/// Any call that begins no child.
///
/// # Safety
///
/// C's contract of `syscall`.
pub unsafe extern "C" fn other(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    // SAFETY: the caller's promise.
    let answer = unsafe { waits::counters::syscall(number, [a, b, c, d, e, f]) };
    sandbox::look(number, [a, b, c], answer);
    answer
}

/// C's answer for a system call that failed: -1, and `errno`.
pub extern "C" fn failed(answer: isize) -> c_long {
    raw::c_answer(answer)
}

/// Exports `syscall`. It passes each call that begins no child to `$other`.
#[doc(hidden)]
#[macro_export]
macro_rules! __syscall {
    ($other:path) => {
        #[cfg(target_arch = "x86_64")]
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn syscall() {
            ::core::arch::naked_asm!(
                "endbr64",
                "cmp rdi, {clone}", "je 2f",
                "cmp rdi, {vfork}", "je 2f",
                "cmp rdi, {clone3}", "je 2f",
                "jmp {other}",
                "2:",
                "mov rax, rdi", "mov rdi, rsi", "mov rsi, rdx", "mov rdx, rcx", "mov r10, r8", "mov r8, r9",
                "mov r9, qword ptr [rsp + 8]",
                "syscall",
                "cmp rax, -4095", "jae 3f",
                "ret",
                "3:",
                "mov rdi, rax",
                "jmp {failed}",
                clone = const $crate::called::CLONE,
                vfork = const $crate::called::VFORK,
                clone3 = const $crate::called::CLONE3,
                other = sym $other,
                failed = sym $crate::called::failed,
            )
        }
        #[cfg(target_arch = "aarch64")]
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn syscall() {
            ::core::arch::naked_asm!(
                "hint #34", // a valid target of a call, if the processor checks this (BTI)
                "cmp x0, #{clone}", "b.eq 2f",
                "cmp x0, #{clone3}", "b.eq 2f",
                "b {other}",
                "2:",
                "mov x8, x0", "mov x0, x1", "mov x1, x2", "mov x2, x3", "mov x3, x4", "mov x4, x5", "mov x5, x6",
                "svc #0",
                "cmn x0, #4095", "b.cs 3f",
                "ret",
                "3:",
                "b {failed}",
                clone = const $crate::called::CLONE,
                clone3 = const $crate::called::CLONE3,
                other = sym $other,
                failed = sym $crate::called::failed,
            )
        }
    };
}

/// The number of `clone`, which begins a child.
pub const CLONE: i32 = libc::SYS_clone as i32;
/// The number of `clone3`, which begins a child.
pub const CLONE3: i32 = libc::SYS_clone3 as i32;
/// The number of `vfork`, which begins a child.
#[cfg(target_arch = "x86_64")]
pub const VFORK: i32 = libc::SYS_vfork as i32;
