//! Two words for each thread, in the thread's static block of memory. In: nothing. Out: a pointer to the thread's state, and
//! a note about a fork.
//!
//! `thread_local!` of a shared object calls `__tls_get_addr`, which may allocate; this runs inside `malloc`. The model
//! "initial-exec" is two instructions, and is allowed for a library that is loaded at the program's start.

/// Declares a word: its symbol, and the functions that read and write the calling thread's copy.
macro_rules! word {
    ($symbol:literal, $(#[$of_get:meta])* $get:ident, $(#[$of_set:meta])* $set:ident) => {
        core::arch::global_asm!(
            concat!(".pushsection .tbss.", $symbol, ",\"awT\",@nobits"),
            concat!(".globl ", $symbol),
            concat!(".hidden ", $symbol),
            concat!(".type ", $symbol, ", %object"),
            ".p2align 3",
            concat!($symbol, ":"),
            ".zero 8",
            concat!(".size ", $symbol, ", 8"),
            ".popsection",
        );

        $(#[$of_get])*
        #[inline(always)]
        pub(super) fn $get<T>() -> *mut T {
            let word: *mut T;
            #[cfg(target_arch = "x86_64")]
            // SAFETY: reads this thread's copy of the variable above.
            unsafe {
                core::arch::asm!(
                    concat!("mov {at}, qword ptr [rip + ", $symbol, "@GOTTPOFF]"),
                    "mov {at}, qword ptr fs:[{at}]",
                    at = out(reg) word, options(nostack, preserves_flags, readonly),
                );
            }
            #[cfg(target_arch = "aarch64")]
            // SAFETY: as above.
            unsafe {
                core::arch::asm!(
                    "mrs {base}, tpidr_el0",
                    concat!("adrp {at}, :gottprel:", $symbol),
                    concat!("ldr {at}, [{at}, :gottprel_lo12:", $symbol, "]"),
                    "ldr {at}, [{base}, {at}]",
                    base = out(reg) _, at = out(reg) word, options(nostack, preserves_flags, readonly),
                );
            }
            word
        }

        $(#[$of_set])*
        #[inline(always)]
        pub(super) fn $set<T>(word: *mut T) {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: writes this thread's copy of the variable above.
            unsafe {
                core::arch::asm!(
                    concat!("mov {at}, qword ptr [rip + ", $symbol, "@GOTTPOFF]"),
                    "mov qword ptr fs:[{at}], {word}",
                    at = out(reg) _, word = in(reg) word, options(nostack, preserves_flags),
                );
            }
            #[cfg(target_arch = "aarch64")]
            // SAFETY: as above.
            unsafe {
                core::arch::asm!(
                    "mrs {base}, tpidr_el0",
                    concat!("adrp {at}, :gottprel:", $symbol),
                    concat!("ldr {at}, [{at}, :gottprel_lo12:", $symbol, "]"),
                    "str {word}, [{base}, {at}]",
                    base = out(reg) _, at = out(reg) _, word = in(reg) word, options(nostack, preserves_flags),
                );
            }
        }
    };
}

word! {
    "allocanary_trace_thread",
    /// The calling thread's state: 0 before its first call, 1 while it must not record.
    get,
    /// Sets the calling thread's state.
    set
}

word! {
    "allocanary_trace_fork",
    /// What the calling thread has noted for the child of its fork.
    get_fork,
    /// Notes something for the child of this thread's fork.
    set_fork
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
