//! Two words for each thread: a pointer to its state, and a value for the child of its fork.

use allocanary_sys::thread_word;

thread_word! {
    "allocanary_trace_thread",
    /// The calling thread's state: 0 before its first call, 1 after its end, 2 while it must not record.
    get,
    /// Sets the calling thread's state.
    set
}

thread_word! {
    "allocanary_trace_fork",
    /// The value that the calling thread has stored for the child of its fork.
    get_fork,
    /// Stores a value for the child of this thread's fork.
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
        // This counter runs at some 25 MHz to 1 GHz. The shift makes a tick one step of the counter.
        counter << allocanary_trace::format::TICK_SHIFT
    };
    counter >> allocanary_trace::format::TICK_SHIFT
}
