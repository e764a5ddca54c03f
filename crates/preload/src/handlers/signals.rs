//! Blocks the signals of the calling thread, and finds those that came during this time. Out: a mask, and whether a wait must end with
//! EINTR.

use crate::raw;

/// Signals 1 to 64, in the kernel's form.
#[derive(Clone, Copy)]
pub struct Mask(u64);

/// Never blocked: signals that the processor causes, and the two signals (32, 33) that the C library itself uses.
const ALWAYS: [i32; 7] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, 32, 33];

/// The kernel's structure of rt_sigaction.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Action {
    pub handler: usize,
    pub flags: libc::c_ulong,
    pub restorer: usize,
    pub mask: u64,
}

impl Mask {
    /// Blocks all signals. Returns the mask as it was.
    pub fn block() -> Mask {
        let all = ALWAYS.iter().fold(u64::MAX, |all, signal| all & !(1 << (signal - 1)));
        Mask(change(libc::SIG_BLOCK, all))
    }

    /// Whether [`block`](Mask::block) found a signal that was already blocked.
    pub fn any(self) -> bool {
        self.0 != 0
    }

    /// Restores the mask. Pending signals are handled now.
    pub fn restore(self) {
        change(libc::SIG_SETMASK, self.0);
    }

    /// The mask as the C library's type, for ppoll and similar functions.
    pub fn set(self) -> libc::sigset_t {
        // SAFETY: all zeros are an empty set, which begins with the kernel's word.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            (&raw mut set).cast::<u64>().write(self.0);
            set
        }
    }

    /// Restores the mask before a wait that cannot restore it itself. Returns whether a signal came that would have ended the wait: a
    /// signal with a handler, and without `SA_RESTART` if the wait `restarts`.
    pub fn restore_and_tell(self, restarts: bool) -> bool {
        let mut pending = 0_u64;
        // SAFETY: the kernel writes one mask.
        unsafe { raw::call(libc::SYS_rt_sigpending, [(&raw mut pending) as usize, 8, 0, 0, 0, 0]) };
        let ends = |signal: i32| {
            let action = action(signal);
            action.handler > libc::SIG_IGN && !(restarts && action.flags & libc::SA_RESTART as libc::c_ulong != 0)
        };
        let came = pending & !self.0;
        let ended = (1..=64).any(|signal| came & 1 << (signal - 1) != 0 && ends(signal));
        self.restore();
        ended
    }
}

/// Whether every handler of this process has `SA_RESTART`: then a signal never ends a wait that restarts.
pub fn all_restart() -> bool {
    (1..=64).map(action).all(|action| {
        action.handler <= libc::SIG_IGN || action.flags & libc::SA_RESTART as libc::c_ulong != 0
    })
}

pub(crate) fn action(signal: i32) -> Action {
    let mut action = Action::default();
    // SAFETY: the kernel writes one action; its mask has 8 bytes.
    unsafe { raw::call(libc::SYS_rt_sigaction, [signal as usize, 0, (&raw mut action) as usize, 8, 0, 0]) };
    action
}

fn change(how: i32, mask: u64) -> u64 {
    let mut before = 0_u64;
    // SAFETY: the kernel reads one mask and writes another.
    unsafe {
        let arguments = [how as usize, (&raw const mask) as usize, (&raw mut before) as usize, 8, 0, 0];
        raw::call(libc::SYS_rt_sigprocmask, arguments)
    };
    before
}
