//! Whether the calling thread is in a signal handler. If it is, the interrupted code may hold the allocator's locks. In: the thread's
//! stack. Out: yes, no, or perhaps.
//!
//! The kernel calls a handler with a return address in the C library, the restorer. If that address is on the stack above us, there
//! are two cases: a handler is running, or an earlier handler left the word there. The values that the kernel writes after a real
//! return address distinguish the two (see [`frame`]). If they do not, the answer is a false yes, and its only effect is that no
//! memory is given back. If the stack may not be the thread's own, nothing is read, and the answer is perhaps.

mod frame;
mod own_stack;
pub(crate) mod signals;

use std::ffi::c_int;
use std::sync::atomic::{AtomicUsize, Ordering};

use signals::Mask;

/// The restorer of glibc; 0 if it is not known.
static RESTORER: AtomicUsize = AtomicUsize::new(0);

/// Finds the restorer: installs a handler and removes it. Runs in the constructor.
pub(crate) fn learn() {
    extern "C" fn nothing(_signal: c_int) {}
    let signal = 64;
    // SAFETY: this signal does not come between the two calls, because the process has one thread and has not begun.
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

/// Whether the calling thread may be in a handler. `blocked` are the signals that the thread itself had blocked.
///
/// An alternate signal stack may be separate from the thread's own stack. It may also be within it; then the restorer's address is
/// above us as well.
pub(crate) fn may_be_in_one(blocked: Mask) -> bool {
    const WORD: usize = size_of::<usize>();
    let (here, restorer) = (stack_pointer(), RESTORER.load(Ordering::Relaxed));
    let Some(end) = own_stack::end_above(here) else { return true };
    if restorer == 0 {
        // On this processor the kernel itself provides the return from handlers, so there is no restorer. A running handler blocks its
        // signal: a blocked signal may mean a handler.
        return blocked.any();
    }
    (here.next_multiple_of(WORD)..end & !(WORD - 1)).step_by(WORD).any(|place| {
        // SAFETY: within the used part of this thread's own stack, and aligned. A volatile read, because the compiler does
        // not know this memory.
        let is_one = unsafe { std::ptr::with_exposed_provenance::<usize>(place).read_volatile() == restorer };
        // SAFETY: as above, up to the end of the stack.
        is_one && unsafe { frame::may_be_at(place, end) }
    })
}

/// Does work that takes the allocator's locks, with all signals blocked. Returns `None`, without the work, if the calling thread may
/// be in a signal handler: the interrupted code may hold those locks.
pub(crate) fn outside<R>(work: impl FnOnce() -> R) -> Option<R> {
    let before = Mask::block();
    let answer = (!may_be_in_one(before)).then(work);
    before.restore();
    answer
}

/// An address on the stack of the function that calls this one, or below it.
#[inline(never)]
fn stack_pointer() -> usize {
    let word = 0_usize;
    (&raw const word).expose_provenance()
}
