//! Declares a word for each thread in the thread's static block of memory, and functions that read and write the word.
//!
//! `thread_local!` in a shared object calls `__tls_get_addr`, which may allocate. But preloads and the trace's writer run inside `malloc`.
//! The model "initial-exec" needs only two instructions, and is allowed for a library that is loaded at the program's start.

/// Declares a word for each thread, which is 0 when the thread starts: its symbol, and functions that read and write the calling thread's
/// word as a pointer. A signal handler on the thread may call them at any time: one instruction reads or writes the word.
#[macro_export]
macro_rules! thread_word {
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
