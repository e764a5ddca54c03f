//! Passes signals on to a child, immediately or when the caller does it.

use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::Duration;

/// The process that gets the signals; 0 for none.
static CHILD: AtomicI32 = AtomicI32::new(0);
/// The held signals, and which of these the kernel has sent: one bit for each signal number.
static HELD: AtomicU64 = AtomicU64::new(0);
static BY_KERNEL: AtomicU64 = AtomicU64::new(0);

/// If a program ends within this time after a SIGHUP or SIGQUIT, the signal counts as the cause. Later ends have other causes: many
/// programs only read their settings again, or list their threads.
const GRACE: Duration = Duration::from_secs(10);

/// The signals that end a program from outside.
const ENDING: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// Blocks the signals that end a program, in the calling thread, until this is dropped. Signals that came during this time then arrive.
/// This is for the time around the start of a program. With handlers installed before the start, the program would lose the information
/// that signals are ignored, as by `nohup`. Without handlers, a signal would end only this process. There must be no other thread yet,
/// because it would get the signals.
#[derive(Debug)]
pub struct HeldSignals(libc::sigset_t);

impl HeldSignals {
    /// Blocks the signals from now on. The program of `command` starts with the thread's mask from before.
    pub fn around(command: &mut Command) -> HeldSignals {
        let mut ending = MaybeUninit::uninit();
        let mut before = MaybeUninit::uninit();
        // SAFETY: both are filled by the calls, and the numbers are signals.
        let before = unsafe {
            libc::sigemptyset(ending.as_mut_ptr());
            ENDING.iter().for_each(|signal| {
                libc::sigaddset(ending.as_mut_ptr(), *signal);
            });
            libc::sigemptyset(before.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_BLOCK, ending.as_ptr(), before.as_mut_ptr());
            before.assume_init()
        };
        let again = move || {
            // SAFETY: the set was filled above.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut()) };
            Ok(())
        };
        // SAFETY: between fork and exec it makes one system call, and allocates nothing.
        unsafe { command.pre_exec(again) };
        HeldSignals(before)
    }
}

impl Drop for HeldSignals {
    fn drop(&mut self) {
        // SAFETY: the set was filled by the kernel.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, std::ptr::null_mut()) };
    }
}

/// From now on this process survives SIGINT, SIGTERM and SIGHUP. SIGTERM and SIGHUP that another process has sent only to
/// this one are passed on to `child`. Signals of the terminal (Ctrl-C, its end) reach a child in this process's group
/// directly.
///
/// Call this after the child's start, within [`HeldSignals`]. Then signals that were ignored stay ignored in the child, and no
/// signal is lost.
pub fn pass_signals_on(child: u32) {
    CHILD.store(child as i32, Ordering::SeqCst);
    handle(&[libc::SIGINT, libc::SIGTERM, libc::SIGHUP], pass_on);
}

/// From now on this process survives SIGINT, SIGTERM, SIGHUP and SIGQUIT, and holds them: [`HeldSignal::next`] returns each, and
/// [`HeldSignal::pass_on`] passes it on. This is for a child in its own process group, which the terminal's signals do not reach.
///
/// Call this after the child's start, like [`pass_signals_on`].
pub fn hold_signals() {
    HELD.store(0, Ordering::SeqCst);
    BY_KERNEL.store(0, Ordering::SeqCst);
    handle(&ENDING, hold);
}

/// A signal that was held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldSignal {
    signal: i32,
    by_kernel: bool,
}

/// Whether people and supervisors end a program by this signal.
pub fn asks_to_end(signal: i32) -> bool {
    matches!(signal, libc::SIGINT | libc::SIGTERM)
}

impl HeldSignal {
    /// Takes a held signal, the lowest number first. A signal that came twice is returned once, as in the kernel.
    pub fn next() -> Option<HeldSignal> {
        let signal = HELD.load(Ordering::SeqCst).trailing_zeros();
        let bit = 1_u64.checked_shl(signal)?;
        HELD.fetch_and(!bit, Ordering::SeqCst);
        let by_kernel = BY_KERNEL.fetch_and(!bit, Ordering::SeqCst) & bit != 0;
        Some(HeldSignal { signal: signal as i32, by_kernel })
    }

    /// Whether it asks a program to end in its own time: SIGINT, SIGTERM.
    pub fn asks_to_end(self) -> bool {
        asks_to_end(self.signal)
    }

    /// Whether this signal ended a program that got it `before` its end. `by` is the signal by which the program ended, as the kernel
    /// reports it.
    pub fn has_ended(self, before: Duration, by: Option<i32>) -> bool {
        by == Some(self.signal) || self.asks_to_end() || before <= GRACE
    }

    /// Whether this signal, and not `earlier`, counts as the one that ends the program. The program got `earlier` this
    /// long `ago`; a program that is ending may get many signals.
    pub fn takes_over(self, earlier: HeldSignal, ago: Duration) -> bool {
        self.asks_to_end() && !earlier.asks_to_end() || !earlier.has_ended(ago, None)
    }

    /// Sends it to a child. A signal of the terminal goes to the whole group that the child leads, as the terminal
    /// would send it.
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
    if unsafe { (*info).si_code } > 0 {
        BY_KERNEL.fetch_or(1 << signal, Ordering::SeqCst);
    }
    HELD.fetch_or(1 << signal, Ordering::SeqCst);
}

/// Stops passing signals on: the child has ended, and another process may get its ID.
pub fn keep_signals() {
    CHILD.store(0, Ordering::SeqCst);
}

extern "C" fn pass_on(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let child = CHILD.load(Ordering::SeqCst);
    // SAFETY: with SA_SIGINFO the kernel passes a valid siginfo.
    let code = unsafe { (*info).si_code };
    // Signals of the kernel, and so of the terminal, have a code above 0.
    if child > 1 && code <= 0 && signal != libc::SIGINT {
        // SAFETY: sends a signal, and restores the number of the last error for the interrupted code.
        unsafe {
            let last = *libc::__errno_location();
            libc::kill(child, signal);
            *libc::__errno_location() = last;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_a_program_has_survived_has_not_ended_it() {
        let (soon, late) = (Duration::from_secs(1), Duration::from_secs(3600));
        let has_ended = |signal, before, by| HeldSignal { signal, by_kernel: false }.has_ended(before, by);
        for signal in [libc::SIGHUP, libc::SIGQUIT] {
            assert!(!has_ended(signal, late, None) && !has_ended(signal, late, Some(libc::SIGKILL)));
            assert!(has_ended(signal, soon, None) && has_ended(signal, late, Some(signal)));
        }
        assert!(has_ended(libc::SIGTERM, late, None) && has_ended(libc::SIGINT, late, None));
    }

    #[test]
    fn the_first_signal_that_ends_a_program_is_not_replaced_by_those_that_follow() {
        let (soon, late) = (Duration::from_secs(1), Duration::from_secs(3600));
        let held = |signal| HeldSignal { signal, by_kernel: false };
        let takes_over = |signal, earlier, ago| held(signal).takes_over(held(earlier), ago);
        for ago in [soon, late] {
            assert!(!takes_over(libc::SIGINT, libc::SIGINT, ago) && !takes_over(libc::SIGHUP, libc::SIGTERM, ago));
            assert!(
                takes_over(libc::SIGTERM, libc::SIGHUP, ago),
                "a service that reads its settings again, and then ends"
            );
        }
        assert!(
            !takes_over(libc::SIGHUP, libc::SIGHUP, soon),
            "of the shell and of the kernel, when a terminal closes"
        );
        assert!(takes_over(libc::SIGHUP, libc::SIGQUIT, late), "it has survived the first");
    }

    #[test]
    fn a_signal_between_a_program_s_start_and_the_handlers_arrives_at_them_and_the_program_gets_its_own() {
        static CAME: AtomicI32 = AtomicI32::new(0);
        extern "C" fn came(signal: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
            CAME.store(signal, Ordering::SeqCst);
        }
        let mut command = Command::new("sleep");
        command.arg("600");
        let blocked = HeldSignals::around(&mut command);
        let mut child = command.spawn().unwrap();
        // SAFETY: a signal to this thread, which has it blocked.
        unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGQUIT) };
        handle(&[libc::SIGQUIT], came);
        assert_eq!(CAME.load(Ordering::SeqCst), 0, "not yet");
        drop(blocked);
        assert_eq!(CAME.load(Ordering::SeqCst), libc::SIGQUIT);
        super::super::signal(child.id(), false, libc::SIGTERM);
        let status = child.wait().unwrap();
        assert_eq!(
            std::os::unix::process::ExitStatusExt::signal(&status),
            Some(libc::SIGTERM),
            "the program has it not blocked"
        );
    }

    #[test]
    fn no_signal_that_is_held_is_lost_by_another() {
        // SAFETY: all-zero bytes are a valid siginfo.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        let mut came = |signal, code| {
            info.si_code = code;
            hold(signal, &mut info, std::ptr::null_mut());
        };
        came(libc::SIGTERM, libc::SI_USER);
        came(libc::SIGHUP, libc::SI_USER);
        came(libc::SIGINT, 0x80); // SI_KERNEL
        came(libc::SIGTERM, libc::SI_USER);
        let all: Vec<HeldSignal> = std::iter::from_fn(HeldSignal::next).collect();
        let held = |signal, by_kernel| HeldSignal { signal, by_kernel };
        assert_eq!(all, [held(libc::SIGHUP, false), held(libc::SIGINT, true), held(libc::SIGTERM, false)]);
        came(libc::SIGINT, libc::SI_USER);
        assert_eq!(HeldSignal::next(), Some(held(libc::SIGINT, false)), "a terminal's one before it is over");
        assert_eq!(HeldSignal::next(), None);
    }
}
