//! The system calls in which a thread waits and which it can make again without a loss.

use std::time::Duration;

/// A wait that is harmless to interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The system call.
    pub name: &'static str,
    pub(crate) number: i64,
    /// Threads in calls of a lower rank are borrowed first. `epoll_wait` has a high rank, because its time-out starts
    /// again from the beginning.
    pub rank: u8,
    /// The arguments with which interrupting it would do harm.
    harm: Harm,
}

/// The arguments with which a call is not harmless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Harm {
    None,
    /// This argument is a mask of signals for the time of the wait. It cannot be read or restored from outside.
    Mask(usize),
    /// The sixth argument points to a pair whose first word is such a mask.
    MaskWithin,
    /// These flags are set. With `MSG_WAITALL` the call may have taken a part of the data already.
    Flags(usize, u64),
    /// The operation, in the lower bits of this argument, is not one of these.
    Unless(usize, &'static [u64]),
}

const fn wait(name: &'static str, number: i64, rank: u8, harm: Harm) -> Wait {
    Wait { name, number, rank, harm }
}

/// All waits that can be harmless. On aarch64 the kernel has only the newer ones of some calls: the C library makes `ppoll` for `poll`,
/// `pselect6` for `select`, `epoll_pwait` for `epoll_wait`, and `ppoll` for `pause`.
pub const ALL: &[Wait] = &[
    wait("nanosleep", libc::SYS_nanosleep, 0, Harm::None),
    wait("clock_nanosleep", libc::SYS_clock_nanosleep, 0, Harm::None),
    #[cfg(target_arch = "x86_64")]
    wait("pause", libc::SYS_pause, 0, Harm::None),
    #[cfg(target_arch = "x86_64")]
    wait("poll", libc::SYS_poll, 1, Harm::None),
    wait("ppoll", libc::SYS_ppoll, 1, Harm::Mask(3)),
    #[cfg(target_arch = "x86_64")]
    wait("select", libc::SYS_select, 1, Harm::None),
    wait("pselect6", libc::SYS_pselect6, 1, Harm::MaskWithin),
    wait("wait4", libc::SYS_wait4, 1, Harm::None),
    wait("waitid", libc::SYS_waitid, 1, Harm::None),
    wait("accept", libc::SYS_accept, 1, Harm::None),
    wait("accept4", libc::SYS_accept4, 1, Harm::None),
    wait("read", libc::SYS_read, 2, Harm::None),
    wait("recvfrom", libc::SYS_recvfrom, 2, Harm::Flags(3, libc::MSG_WAITALL as u64)),
    wait("recvmsg", libc::SYS_recvmsg, 2, Harm::Flags(2, libc::MSG_WAITALL as u64)),
    // A wait with a time-out that was interrupted before. Its arguments do not show what it waits for: see
    // [`is_harmless_again`].
    wait(AGAIN, libc::SYS_restart_syscall, 2, Harm::None),
    #[cfg(target_arch = "x86_64")]
    wait("epoll_wait", libc::SYS_epoll_wait, 3, Harm::None),
    wait("epoll_pwait", libc::SYS_epoll_pwait, 3, Harm::Mask(4)),
    wait("epoll_pwait2", libc::SYS_epoll_pwait2, 3, Harm::Mask(4)),
    // This is harmless only in a wait for a condition variable. The thread's stack shows whether it is one.
    wait(FOR_ANOTHER, libc::SYS_futex, 4, Harm::Unless(1, &[libc::FUTEX_WAIT as u64, libc::FUTEX_WAIT_BITSET as u64])),
];

/// The name of a wait for another thread.
pub const FOR_ANOTHER: &str = "futex";

/// The name of a wait that was interrupted before and continues.
pub const AGAIN: &str = "restart_syscall";

/// Whether a wait that continues is a sleep or a poll. `function` is the kernel's function in which it waits (`/proc/PID/task/TID/wchan`).
/// A wait for a lock with a time-out continues in the same way. If the kernel does not show the function, the wait does not count as
/// harmless.
pub fn is_harmless_again(function: &str) -> bool {
    ["nanosleep", "poll"].iter().any(|name| function.contains(name))
}

/// The wait of this call, if it is harmless. `word` reads a word of the process.
pub fn harmless(number: i64, arguments: &[u64; 6], word: impl Fn(u64) -> Option<u64>) -> Option<&'static Wait> {
    let wait = ALL.iter().find(|wait| wait.number == number)?;
    let harmless = match wait.harm {
        Harm::None => true,
        Harm::Mask(at) => arguments[at] == 0,
        Harm::MaskWithin => arguments[5] == 0 || word(arguments[5]) == Some(0),
        Harm::Flags(at, flags) => arguments[at] & flags == 0,
        Harm::Unless(at, operations) => operations.contains(&(arguments[at] & 0x7f)),
    };
    harmless.then_some(wait)
}

impl Wait {
    /// Whether it may be on a socket. The socket's number is then its first argument.
    pub fn may_be_on_socket(&self) -> bool {
        let calls = [libc::SYS_read, libc::SYS_recvfrom, libc::SYS_recvmsg, libc::SYS_accept, libc::SYS_accept4];
        calls.contains(&self.number)
    }

    /// Whether it is harmless only in a wait for a condition.
    pub fn is_for_another(&self) -> bool {
        self.name == FOR_ANOTHER
    }
}

/// The number of the call that continues after a first interruption. The kernel does not show this number, so only the kernel's function
/// and the arguments show which call it is.
pub fn again(function: &str, arguments: &[u64; 6]) -> Option<i64> {
    const CLOCKS: u64 = 16;
    if function.contains("nanosleep") {
        // The first argument is a clock in the one call, and an address in the other.
        return Some(if arguments[0] < CLOCKS { libc::SYS_clock_nanosleep } else { libc::SYS_nanosleep });
    }
    // The other calls for a poll are made again as they were.
    #[cfg(target_arch = "x86_64")]
    if function.contains("poll") {
        return Some(libc::SYS_poll);
    }
    None
}

/// The time-out of a call that would start again from the beginning. Only `epoll_wait` has such a time-out. `word`
/// reads a word of the process.
pub fn time_out(number: i64, arguments: &[u64; 6], word: impl Fn(u64) -> Option<u64>) -> Option<Duration> {
    #[cfg(target_arch = "x86_64")]
    let in_milliseconds = [libc::SYS_epoll_wait, libc::SYS_epoll_pwait];
    #[cfg(not(target_arch = "x86_64"))]
    let in_milliseconds = [libc::SYS_epoll_pwait];
    match number {
        _ if in_milliseconds.contains(&number) => u64::try_from(arguments[3] as i32).ok().map(Duration::from_millis),
        libc::SYS_epoll_pwait2 if arguments[3] != 0 => {
            Some(Duration::new(word(arguments[3])?, word(arguments[3] + 8)? as u32 % 1_000_000_000))
        }
        _ => None,
    }
}

/// A call in which a thread is, as the kernel reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyscallState {
    /// The call's number.
    pub number: i64,
    /// Its arguments.
    pub arguments: [u64; 6],
    /// The stack pointer, and the address at which the code continues.
    pub sp: u64,
    pub pc: u64,
}

/// Parses the text of `/proc/PID/task/TID/syscall`. `None` for a thread that runs or is in no call.
pub fn parse_call(text: &str) -> Option<SyscallState> {
    let mut fields = text.split_ascii_whitespace();
    let number: i64 = fields.next()?.parse().ok().filter(|number| *number >= 0)?;
    let mut numbers = [0; 8];
    for number in &mut numbers {
        *number = u64::from_str_radix(fields.next()?.strip_prefix("0x")?, 16).ok()?;
    }
    let [arguments @ .., sp, pc] = numbers;
    Some(SyscallState { number, arguments, sp, pc })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(number: i64, arguments: [u64; 6], word: Option<u64>) -> Option<&'static str> {
        harmless(number, &arguments, |_| word).map(|wait| wait.name)
    }

    #[test]
    fn waits_that_hold_a_mask_or_a_part_of_the_data_are_not_harmless() {
        #[cfg(target_arch = "x86_64")]
        assert_eq!(name(libc::SYS_poll, [1; 6], None), Some("poll"));
        assert_eq!(name(libc::SYS_ppoll, [1, 1, 1, 0, 0, 0], None), Some("ppoll"));
        assert_eq!(name(libc::SYS_ppoll, [1, 1, 1, 5, 8, 0], None), None);
        assert_eq!(name(libc::SYS_pselect6, [0; 6], None), Some("pselect6"));
        assert_eq!(name(libc::SYS_pselect6, [0, 0, 0, 0, 0, 9], Some(0)), Some("pselect6"));
        assert_eq!(name(libc::SYS_pselect6, [0, 0, 0, 0, 0, 9], Some(7)), None);
        assert_eq!(name(libc::SYS_pselect6, [0, 0, 0, 0, 0, 9], None), None, "what cannot be read may be a mask");
        assert_eq!(name(libc::SYS_recvfrom, [3, 0, 9, 0, 0, 0], None), Some("recvfrom"));
        assert_eq!(name(libc::SYS_recvfrom, [3, 0, 9, libc::MSG_WAITALL as u64, 0, 0], None), None);
        assert_eq!(name(libc::SYS_futex, [0, 6, 0, 0, 0, 0], None), None, "a lock that passes priority on");
        assert_eq!(name(libc::SYS_futex, [0, 0x189, 0, 0, 0, 0], None), Some("futex"));
        assert_eq!(name(libc::SYS_write, [0; 6], None), None);
    }

    #[test]
    fn a_wait_that_goes_on_is_harmless_only_if_it_is_a_sleep_or_a_poll() {
        assert!(is_harmless_again("hrtimer_nanosleep") && is_harmless_again("poll_schedule_timeout.constprop.0"));
        assert!(!is_harmless_again("futex_wait_queue") && !is_harmless_again("0") && !is_harmless_again(""));
    }

    #[test]
    fn a_wait_that_goes_on_is_known_by_its_arguments() {
        assert_eq!(again("hrtimer_nanosleep", &[1, 0, 0x7ffd, 0, 0, 0]), Some(libc::SYS_clock_nanosleep));
        assert_eq!(again("hrtimer_nanosleep", &[0x7ffd, 0x7ffd, 0, 0, 0, 0]), Some(libc::SYS_nanosleep));
        #[cfg(target_arch = "x86_64")]
        assert_eq!(again("do_poll", &[0x7ffd, 1, 5, 0, 0, 0]), Some(libc::SYS_poll));
        assert_eq!(again("futex_wait", &[0; 6]), None);
    }

    #[test]
    fn a_time_out_that_would_begin_anew_is_read() {
        let of = |number, third| time_out(number, &[3, 0, 0, third, 0, 0], |at| Some(at % 5));
        assert_eq!(of(libc::SYS_epoll_pwait, 10_000), Some(Duration::from_secs(10)));
        assert_eq!(of(libc::SYS_epoll_pwait, u64::from(u32::MAX)), None, "without an end");
        assert_eq!((of(libc::SYS_epoll_pwait2, 0), of(libc::SYS_ppoll, 10)), (None, None));
        assert_eq!(of(libc::SYS_epoll_pwait2, 1001), Some(Duration::new(1, 4)));
    }

    #[test]
    fn the_text_of_a_call_is_read() {
        let text = "7 0x7ffd 0x1 0xffffffff 0x0 0x0 0x8 0x7ffd0 0x7f00\n";
        let arguments = [0x7ffd, 1, 0xffff_ffff, 0, 0, 8];
        assert_eq!(parse_call(text), Some(SyscallState { number: 7, arguments, sp: 0x7_ffd0, pc: 0x7f00 }));
        assert_eq!(parse_call("running\n"), None);
        assert_eq!(parse_call("-1 0x7ffd 0x7f00\n"), None);
        assert_eq!(parse_call(""), None);
    }
}
