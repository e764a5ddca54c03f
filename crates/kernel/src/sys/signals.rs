//! Signals that are passed on to a program. In: the process ID of a child. Out: its signals.

use std::sync::atomic::{AtomicI32, Ordering};

/// The process that gets the signals; 0 for none.
static CHILD: AtomicI32 = AtomicI32::new(0);

/// From now on this process survives SIGINT, SIGTERM and SIGHUP. SIGTERM and SIGHUP that another process has sent to this
/// one alone are passed on to `child`. What the terminal sends (Ctrl-C, its end) reaches a child by itself, if it is in this
/// process's group.
///
/// To be called after the child's start: it then keeps signals that were ignored, as by `nohup`.
pub fn pass_signals_on(child: u32) {
    CHILD.store(child as i32, Ordering::SeqCst);
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: all-zero bytes are a valid sigaction; the handler only makes a system call that handlers may make.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = pass_on as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
            libc::sigaction(signal, &action, std::ptr::null_mut());
        }
    }
}

/// Passes no signal on any more: the child has ended, and its ID may become another process's.
pub fn keep_signals() {
    CHILD.store(0, Ordering::SeqCst);
}

extern "C" fn pass_on(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let child = CHILD.load(Ordering::SeqCst);
    // SAFETY: with SA_SIGINFO the kernel passes a valid siginfo.
    let code = unsafe { (*info).si_code };
    // Signals of the kernel, so of the terminal, have a code above 0.
    if child > 1 && code <= 0 && signal != libc::SIGINT {
        // SAFETY: sends a signal; the number of the last error is kept for the code that was interrupted.
        unsafe {
            let last = *libc::__errno_location();
            libc::kill(child, signal);
            *libc::__errno_location() = last;
        }
    }
}
