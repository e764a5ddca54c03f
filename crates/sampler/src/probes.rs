//! Probes for tracers (USDT): `otel_memory:alloc(ptr, size, weighted_bytes)` and `otel_memory:free(ptr)`. OpenTelemetry's profiler looks
//! for these. In: samples. Out: calls of two empty functions, while a tracer is attached.
//!
//! A tracer finds the notes of `.note.stapsdt` in the file, increments the semaphore in this process's memory, and puts a breakpoint at the
//! `nop`. Without a tracer, a sample costs only the load of the semaphore.

use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

/// A probe: its semaphore, its function, and its note. The note says that the arguments are where C's calling convention puts them.
macro_rules! probe {
    ($name:literal, $function:literal, $semaphore:literal, $arguments:literal) => {
        core::arch::global_asm!(
            ".ifndef _.stapsdt.base",
            ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat",
            ".weak _.stapsdt.base",
            ".hidden _.stapsdt.base",
            "_.stapsdt.base: .space 1",
            ".size _.stapsdt.base, 1",
            ".popsection",
            ".endif",
            ".pushsection .probes,\"aw\",\"progbits\"",
            ".balign 2",
            concat!(".globl ", $semaphore),
            concat!(".hidden ", $semaphore),
            concat!(".type ", $semaphore, ", %object"),
            concat!($semaphore, ": .2byte 0"),
            concat!(".size ", $semaphore, ", 2"),
            ".popsection",
            concat!(".pushsection .text.", $function, ",\"ax\",\"progbits\""),
            ".balign 16",
            concat!(".globl ", $function),
            concat!(".hidden ", $function),
            concat!(".type ", $function, ", %function"),
            concat!($function, ":"),
            ".cfi_startproc",
            "990: nop",
            "ret",
            ".cfi_endproc",
            concat!(".size ", $function, ", . - ", $function),
            ".pushsection .note.stapsdt,\"\",\"note\"",
            ".balign 4",
            ".4byte 992f-991f, 994f-993f, 3",
            "991: .asciz \"stapsdt\"",
            "992: .balign 4",
            "993: .8byte 990b",
            ".8byte _.stapsdt.base",
            concat!(".8byte ", $semaphore),
            ".asciz \"otel_memory\"",
            concat!(".asciz \"", $name, "\""),
            concat!(".asciz \"", $arguments, "\""),
            "994: .balign 4",
            ".popsection",
            ".popsection",
        );
    };
}

#[cfg(target_arch = "x86_64")]
probe!("alloc", "allocanary_probe_alloc", "allocanary_alloc_semaphore", "8@%rdi 8@%rsi 8@%rdx");
#[cfg(target_arch = "x86_64")]
probe!("free", "allocanary_probe_free", "allocanary_free_semaphore", "8@%rdi");
#[cfg(target_arch = "aarch64")]
probe!("alloc", "allocanary_probe_alloc", "allocanary_alloc_semaphore", "8@x0 8@x1 8@x2");
#[cfg(target_arch = "aarch64")]
probe!("free", "allocanary_probe_free", "allocanary_free_semaphore", "8@x0");

unsafe extern "C" {
    safe fn allocanary_probe_alloc(address: u64, size: u64, weighted: u64);
    safe fn allocanary_probe_free(address: u64);
    safe static allocanary_alloc_semaphore: AtomicU16;
    safe static allocanary_free_semaphore: AtomicU16;
}

/// Reports a new sampled block to a tracer. `weighted` is the number of bytes that the block represents.
pub(super) fn alloc(address: u64, size: u64, weighted: u64) {
    if allocanary_alloc_semaphore.load(Relaxed) != 0 {
        allocanary_probe_alloc(address, size, weighted);
    }
}

/// Reports to a tracer that a sampled block is about to be freed.
pub(super) fn free(address: u64) {
    if allocanary_free_semaphore.load(Relaxed) != 0 {
        allocanary_probe_free(address);
    }
}
