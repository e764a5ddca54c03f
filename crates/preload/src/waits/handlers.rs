//! Whether the calling thread is in a signal handler: the code that it has interrupted may hold the allocator's locks.
//! In: the thread's stack. Out: yes, no, or perhaps.
//!
//! The kernel calls a handler with a return address in the C library, the restorer. Where that address stands on the
//! stack above us, a handler may be running. An old word that was left there makes it a false yes, which only keeps
//! memory.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::signals::{self, Mask};
use crate::raw;

/// The restorer of glibc; 0 if it is not known.
static RESTORER: AtomicUsize = AtomicUsize::new(0);

/// A stack deeper than this is not searched.
const DEEPEST: usize = 8 << 20;

/// Learns the restorer: installs a handler and takes it back. Runs in the constructor.
pub(super) fn learn() {
    extern "C" fn nothing(_signal: c_int) {}
    let signal = 64;
    // SAFETY: nobody sends this signal between the two calls: the process has one thread and has not begun.
    unsafe {
        let mut before: libc::sigaction = std::mem::zeroed();
        let mut ours: libc::sigaction = std::mem::zeroed();
        ours.sa_sigaction = nothing as extern "C" fn(c_int) as usize;
        if libc::sigaction(signal, &ours, &mut before) == 0 {
            RESTORER.store(signals::action(signal).restorer, Ordering::Relaxed);
            libc::sigaction(signal, &before, std::ptr::null_mut());
        }
    }
}

/// Whether the calling thread may be in a handler. `blocked` are the signals that it blocks by itself.
pub(super) fn may_be_in_one(blocked: Mask) -> bool {
    let (here, restorer) = (stack_pointer(), RESTORER.load(Ordering::Relaxed));
    // SAFETY: the kernel writes one structure.
    let alternate = unsafe {
        let mut stack: libc::stack_t = std::mem::zeroed();
        raw::call(libc::SYS_sigaltstack, [0, (&raw mut stack) as usize, 0, 0, 0, 0]);
        stack.ss_flags & libc::SS_ONSTACK != 0
    };
    if alternate {
        return true;
    }
    match end_of_stack() {
        Some(end) if restorer != 0 && here < end && end - here <= DEEPEST => {
            let words = here.next_multiple_of(size_of::<usize>())..end & !(size_of::<usize>() - 1);
            words.step_by(size_of::<usize>()).any(|place| {
                // SAFETY: within this thread's own stack, in use, and aligned. Read as the machine does: the compiler
                // does not know what is there.
                unsafe { std::ptr::with_exposed_provenance::<usize>(place).read_volatile() == restorer }
            })
        }
        // A stack of the program's own, or another processor: handlers block the signal that they handle.
        _ => blocked.any(),
    }
}

/// The end of this thread's stack: glibc puts a thread's descriptor there, and the loader knows the first thread's.
fn end_of_stack() -> Option<usize> {
    unsafe extern "C" {
        static __libc_stack_end: *const c_void;
    }
    // SAFETY: takes nothing; the loader's variable is set before any code runs.
    unsafe {
        let is_first = raw::call(libc::SYS_gettid, [0; 6]) == raw::pid() as isize;
        let end = if is_first { __libc_stack_end.addr() } else { libc::pthread_self() as usize };
        Some(end).filter(|end| *end != 0)
    }
}

/// An address on this function's caller's stack, or below.
#[inline(never)]
fn stack_pointer() -> usize {
    let word = 0_usize;
    (&raw const word).expose_provenance()
}
