//! One word for each thread, in the thread's static block of memory. In: nothing. Out: the word, a pointer to the thread's
//! state.
//!
//! `thread_local!` of a shared object calls `__tls_get_addr`, which may allocate; this runs inside `malloc`. The model
//! "initial-exec" is two instructions, and is allowed for a library that is loaded at the program's start.

core::arch::global_asm!(
    ".pushsection .tbss.allocanary_trace,\"awT\",@nobits",
    ".globl allocanary_trace_thread",
    ".hidden allocanary_trace_thread",
    ".type allocanary_trace_thread, %object",
    ".p2align 3",
    "allocanary_trace_thread:",
    ".zero 8",
    ".size allocanary_trace_thread, 8",
    ".popsection",
);

/// The calling thread's word: 0 before its first call, 1 while it must not record, else its state.
#[inline(always)]
pub(super) fn get<T>() -> *mut T {
    let thread: *mut T;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: reads this thread's copy of the variable above.
    unsafe {
        core::arch::asm!(
            "mov {at}, qword ptr [rip + allocanary_trace_thread@GOTTPOFF]",
            "mov {at}, qword ptr fs:[{at}]",
            at = out(reg) thread, options(nostack, preserves_flags, readonly),
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        core::arch::asm!(
            "mrs {base}, tpidr_el0",
            "adrp {at}, :gottprel:allocanary_trace_thread",
            "ldr {at}, [{at}, :gottprel_lo12:allocanary_trace_thread]",
            "ldr {at}, [{base}, {at}]",
            base = out(reg) _, at = out(reg) thread, options(nostack, preserves_flags, readonly),
        );
    }
    thread
}

/// Sets the calling thread's word.
#[inline(always)]
pub(super) fn set<T>(thread: *mut T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: writes this thread's copy of the variable above.
    unsafe {
        core::arch::asm!(
            "mov {at}, qword ptr [rip + allocanary_trace_thread@GOTTPOFF]",
            "mov qword ptr fs:[{at}], {thread}",
            at = out(reg) _, thread = in(reg) thread, options(nostack, preserves_flags),
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        core::arch::asm!(
            "mrs {base}, tpidr_el0",
            "adrp {at}, :gottprel:allocanary_trace_thread",
            "ldr {at}, [{at}, :gottprel_lo12:allocanary_trace_thread]",
            "str {thread}, [{base}, {at}]",
            base = out(reg) _, at = out(reg) _, thread = in(reg) thread, options(nostack, preserves_flags),
        );
    }
}

/// The processor's clock, which all its cores share, in the format's ticks.
#[inline(always)]
pub(super) fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction.
    let counter = unsafe { core::arch::x86_64::_rdtsc() };
    #[cfg(target_arch = "aarch64")]
    let counter: u64 = {
        let counter: u64;
        // SAFETY: Linux lets programs read the virtual counter.
        unsafe { core::arch::asm!("mrs {0}, cntvct_el0", out(reg) counter, options(nostack, nomem)) };
        // It runs at some 25 MHz to 1 GHz: a finer unit keeps ticks apart.
        counter << crate::format::TICK_SHIFT
    };
    counter >> crate::format::TICK_SHIFT
}
