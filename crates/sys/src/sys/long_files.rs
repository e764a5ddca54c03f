//! Limits on the length of files (RLIMIT_FSIZE, `ulimit -f`). The kernel ends a process that exceeds the limit by a signal. Functions here
//! avoid this signal.

use std::mem::MaybeUninit;

/// The longest file that this process may write, in bytes; `u64::MAX` without a limit.
pub fn longest_file() -> u64 {
    let mut longest = MaybeUninit::<libc::rlimit>::uninit();
    // SAFETY: getrlimit fills the structure if it returns 0, and nothing else reads it.
    match unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, longest.as_mut_ptr()) } {
        // SAFETY: it returned 0, so it has filled the structure.
        0 => unsafe { longest.assume_init() }.rlim_cur,
        _ => u64::MAX,
    }
}

/// Runs `work`, which writes to files, inside of a user's program. The kernel would end the program by a signal if a file becomes too long
/// (SIGXFSZ) or a pipe has no reader (SIGPIPE). With this function, the work only gets an error. A signal that was pending before stays
/// pending. The error number stays that of the work.
///
/// Allocates nothing, and may be called in a signal handler.
pub fn without_write_signals<R>(work: impl FnOnce() -> R) -> R {
    const SIGNALS: [i32; 2] = [libc::SIGXFSZ, libc::SIGPIPE];
    let set_of = |signals: &[i32]| {
        let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: all-zero bytes are an empty set, which sigemptyset makes for every C library.
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            signals.iter().for_each(|signal| _ = libc::sigaddset(set.as_mut_ptr(), *signal));
            set.assume_init()
        }
    };
    let (mut before, mut pending) = (set_of(&[]), set_of(&[]));
    // SAFETY: sets that are ours. Both calls fail only for arguments that these are not.
    let is_blocked = unsafe {
        libc::pthread_sigmask(libc::SIG_BLOCK, &set_of(&SIGNALS), &mut before) == 0
            && libc::sigpending(&mut pending) == 0
    };
    let done = work();
    if is_blocked {
        // SAFETY: this thread's error number, and sets and a time that are ours, of the length that the kernel expects.
        // We make the bare system call, because the C library's function is a cancellation point.
        unsafe {
            let errno = *libc::__errno_location();
            for signal in SIGNALS {
                if libc::sigismember(&pending, signal) == 0 {
                    let (set, at_once) = (set_of(&[signal]), libc::timespec { tv_sec: 0, tv_nsec: 0 });
                    libc::syscall(libc::SYS_rt_sigtimedwait, &raw const set, 0_usize, &raw const at_once, 8_usize);
                }
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
            *libc::__errno_location() = errno;
        }
    }
    done
}

extern "C" fn nothing(_: i32) {}

/// From now on, a write above the limit gives this process an error, and does not end it. Programs that it starts have the default action
/// for the signal: an exec resets a caught signal, but would keep an ignored one.
pub fn survive_long_files() {
    // SAFETY: all-zero bytes are a valid sigaction, and the handler does nothing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(libc::SIGXFSZ, std::ptr::null(), &mut action) != 0 || action.sa_sigaction != libc::SIG_DFL {
            return;
        }
        action.sa_sigaction = nothing as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(libc::SIGXFSZ, &action, std::ptr::null_mut());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// Whether a signal is pending for this thread.
    fn is_pending(signal: i32) -> bool {
        let mut pending = MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: fills the set.
        unsafe { libc::sigpending(pending.as_mut_ptr()) == 0 && libc::sigismember(pending.as_ptr(), signal) == 1 }
    }

    #[test]
    fn a_signal_of_the_work_is_taken_back_and_one_of_before_is_not() {
        let raise = || {
            // SAFETY: sends a signal to this thread, in which it is blocked.
            unsafe { libc::raise(libc::SIGXFSZ) }
        };
        without_write_signals(|| {
            let inner = without_write_signals(|| {
                raise();
                is_pending(libc::SIGXFSZ)
            });
            assert!(inner && !is_pending(libc::SIGXFSZ), "its own is gone");
            raise();
            without_write_signals(raise);
            assert!(is_pending(libc::SIGXFSZ), "another's stays");
        });
        assert!(longest_file() > 0);
    }

    #[test]
    fn the_error_number_is_the_work_s() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        drop(reader);
        let error = without_write_signals(|| writer.write(b"x").unwrap_err());
        assert_eq!(error.raw_os_error(), Some(libc::EPIPE));
        without_write_signals(|| {
            // SAFETY: this thread's error number.
            unsafe { *libc::__errno_location() = 77 };
        });
        // SAFETY: as above.
        assert_eq!(unsafe { *libc::__errno_location() }, 77);
    }
}
