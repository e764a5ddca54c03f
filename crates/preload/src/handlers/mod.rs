//! Whether the calling thread is in a signal handler: the code that it has interrupted may hold the allocator's locks.
//! In: the thread's stack. Out: yes, no, or perhaps.
//!
//! The kernel calls a handler with a return address in the C library, the restorer. If that address is on the stack
//! above us, a handler may be running, or an earlier handler left the word there. What the kernel puts around a real
//! return address tells the two apart (see [`frame`]). If that fails, the answer is a false yes, which only keeps
//! memory. On a stack that is not certain to be the thread's own, nothing is read, and the answer is perhaps.

mod frame;
mod own_stack;
pub(crate) mod signals;

use std::ffi::c_int;
use std::sync::atomic::{AtomicUsize, Ordering};

use signals::Mask;

/// The restorer of glibc; 0 if it is not known.
static RESTORER: AtomicUsize = AtomicUsize::new(0);

/// Learns the restorer: installs a handler and takes it back. Runs in the constructor.
pub(crate) fn learn() {
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
///
/// An alternate signal stack is either another stack than the thread's own, or it lies within it, and then the restorer
/// stands above us as well.
pub(crate) fn may_be_in_one(blocked: Mask) -> bool {
    const WORD: usize = size_of::<usize>();
    let (here, restorer) = (stack_pointer(), RESTORER.load(Ordering::Relaxed));
    let Some(end) = own_stack::end_above(here) else { return true };
    if restorer == 0 {
        // A processor whose kernel returns from handlers by itself. They block the signal that they handle.
        return blocked.any();
    }
    (here.next_multiple_of(WORD)..end & !(WORD - 1)).step_by(WORD).any(|place| {
        // SAFETY: within this thread's own stack, in use, and aligned. Read as the machine does: the compiler does not know
        // what is there.
        let is_one = unsafe { std::ptr::with_exposed_provenance::<usize>(place).read_volatile() == restorer };
        // SAFETY: as above, up to the end of the stack.
        is_one && unsafe { frame::may_be_at(place, end) }
    })
}

/// Does what takes the allocator's locks, with all signals blocked; `None` if the calling thread may be in a signal
/// handler: the code that it has interrupted may hold those locks.
pub(crate) fn outside<R>(work: impl FnOnce() -> R) -> Option<R> {
    let before = Mask::block();
    let answer = (!may_be_in_one(before)).then(work);
    before.restore();
    answer
}

/// An address on this function's caller's stack, or below.
#[inline(never)]
fn stack_pointer() -> usize {
    let word = 0_usize;
    (&raw const word).expose_provenance()
}
