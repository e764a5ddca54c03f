//! Signals that are passed on to a program, at once or by the caller. In: the process ID of a child. Out: its signals.

use std::sync::atomic::{AtomicI32, Ordering};

/// The process that gets the signals; 0 for none.
static CHILD: AtomicI32 = AtomicI32::new(0);
/// The last signal that is held; 0 for none. Above its number: whether the kernel has sent it.
static HELD: AtomicI32 = AtomicI32::new(0);
const BY_KERNEL: i32 = 1 << 8;

/// From now on this process survives SIGINT, SIGTERM and SIGHUP. SIGTERM and SIGHUP that another process has sent to this
/// one alone are passed on to `child`. What the terminal sends (Ctrl-C, its end) reaches a child by itself, if it is in this
/// process's group.
///
/// To be called after the child's start: it then keeps signals that were ignored, as by `nohup`.
pub fn pass_signals_on(child: u32) {
    CHILD.store(child as i32, Ordering::SeqCst);
    handle(&[libc::SIGINT, libc::SIGTERM, libc::SIGHUP], pass_on);
}

/// From now on this process survives SIGINT, SIGTERM, SIGHUP and SIGQUIT, and holds them: [`HeldSignal::next`] tells each, and
/// [`HeldSignal::pass_on`] passes it on. For a child in a process group of its own, which the terminal does not reach.
///
/// To be called after the child's start, as [`pass_signals_on`].
pub fn hold_signals() {
    handle(&[libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT], hold);
}

/// A signal that was held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldSignal {
    signal: i32,
    by_kernel: bool,
}

impl HeldSignal {
    /// The last one since this was asked.
    pub fn next() -> Option<HeldSignal> {
        let held = HELD.swap(0, Ordering::SeqCst);
        (held != 0).then_some(HeldSignal { signal: held % BY_KERNEL, by_kernel: held >= BY_KERNEL })
    }

    /// Sends it to a child; one of the terminal to all of the group that the child leads, as the terminal would.
    pub fn pass_on(self, child: u32) {
        super::signal(child, self.by_kernel, self.signal);
    }
}

type Handler = extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void);

fn handle(signals: &[i32], handler: Handler) {
    for signal in signals {
        // SAFETY: all-zero bytes are a valid sigaction; the handlers only store a number, or make a system call that handlers may make.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
            libc::sigaction(*signal, &action, std::ptr::null_mut());
        }
    }
}

extern "C" fn hold(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: with SA_SIGINFO the kernel passes a valid siginfo.
    let by_kernel = unsafe { (*info).si_code } > 0;
    HELD.store(signal + if by_kernel { BY_KERNEL } else { 0 }, Ordering::SeqCst);
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
