//! Runs work that makes system calls inside the recorded program, which does not notice the calls.

use std::ptr::null_mut;

unsafe extern "C" {
    fn pthread_setcancelstate(state: libc::c_int, old: *mut libc::c_int) -> libc::c_int;
}

/// Signals that an instruction of the thread causes. If the kernel sends one while it is blocked, it ends the process.
const OF_INSTRUCTIONS: [libc::c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];

/// Does work that makes system calls, without effects on the program. The error number is restored. The thread cannot
/// be cancelled during the work, because it has the cursor. Signals are delayed, because their handlers may fork.
pub(super) fn undisturbed<R>(work: impl FnOnce() -> R) -> R {
    const PTHREAD_CANCEL_DISABLE: libc::c_int = 1;
    // SAFETY: the thread's own state and error number; sets of signals on the stack, which all-zero bytes are.
    unsafe {
        let (errno, mut state) = (*libc::__errno_location(), 0);
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &mut state);
        let (mut blocked, mut before): (libc::sigset_t, libc::sigset_t) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut blocked);
        OF_INSTRUCTIONS.iter().for_each(|signal| _ = libc::sigdelset(&mut blocked, *signal));
        let is_blocked = libc::pthread_sigmask(libc::SIG_BLOCK, &blocked, &mut before) == 0;
        let done = work();
        if is_blocked {
            libc::pthread_sigmask(libc::SIG_SETMASK, &before, null_mut());
        }
        pthread_setcancelstate(state, &mut state);
        *libc::__errno_location() = errno;
        done
    }
}
