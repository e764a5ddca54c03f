//! System calls in which a thread waits and which it can make again, with nothing lost. In: a call's number and arguments. Out: its name.

/// A wait that is harmless to interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The system call.
    pub name: &'static str,
    number: i64,
    /// Threads in calls of a lower rank are borrowed first. `epoll_wait` is last: its time-out begins anew.
    pub rank: u8,
    /// The arguments that make it harmful.
    harm: Harm,
}

/// What a call's arguments must not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Harm {
    None,
    /// This argument is a mask of signals that holds only while the call waits: nobody can read or restore it from outside.
    Mask(usize),
    /// The sixth argument points to a pair whose first word is such a mask.
    MaskWithin,
    /// These flags: `MSG_WAITALL` has taken a part of the data already.
    Flags(usize, u64),
}

const fn wait(name: &'static str, number: i64, rank: u8, harm: Harm) -> Wait {
    Wait { name, number, rank, harm }
}

/// All of them.
pub const ALL: &[Wait] = &[
    wait("nanosleep", libc::SYS_nanosleep, 0, Harm::None),
    wait("clock_nanosleep", libc::SYS_clock_nanosleep, 0, Harm::None),
    wait("pause", libc::SYS_pause, 0, Harm::None),
    wait("poll", libc::SYS_poll, 1, Harm::None),
    wait("ppoll", libc::SYS_ppoll, 1, Harm::Mask(3)),
    wait("select", libc::SYS_select, 1, Harm::None),
    wait("pselect6", libc::SYS_pselect6, 1, Harm::MaskWithin),
    wait("wait4", libc::SYS_wait4, 1, Harm::None),
    wait("waitid", libc::SYS_waitid, 1, Harm::None),
    wait("accept", libc::SYS_accept, 1, Harm::None),
    wait("accept4", libc::SYS_accept4, 1, Harm::None),
    wait("read", libc::SYS_read, 2, Harm::None),
    wait("recvfrom", libc::SYS_recvfrom, 2, Harm::Flags(3, libc::MSG_WAITALL as u64)),
    wait("recvmsg", libc::SYS_recvmsg, 2, Harm::Flags(2, libc::MSG_WAITALL as u64)),
    // A wait with a time-out that was interrupted once. What it waits for is not in its arguments: see [`is_harmless_again`].
    wait(AGAIN, libc::SYS_restart_syscall, 2, Harm::None),
    wait("epoll_wait", libc::SYS_epoll_wait, 3, Harm::None),
    wait("epoll_pwait", libc::SYS_epoll_pwait, 3, Harm::Mask(4)),
    wait("epoll_pwait2", libc::SYS_epoll_pwait2, 3, Harm::Mask(4)),
];

/// The name of a wait that was interrupted once and goes on.
pub const AGAIN: &str = "restart_syscall";

/// Whether a wait that goes on is a sleep or a poll, by the function of the kernel that it is in (`/proc/PID/task/TID/wchan`). A lock with a
/// time-out goes on in the same way. The kernel may not tell: then it is not known to be harmless.
pub fn is_harmless_again(function: &str) -> bool {
    ["nanosleep", "poll"].iter().any(|name| function.contains(name))
}

/// The wait that a call is, if it is harmless. `word` reads a word of the process.
pub fn harmless(number: i64, arguments: &[u64; 6], word: impl Fn(u64) -> Option<u64>) -> Option<&'static Wait> {
    let wait = ALL.iter().find(|wait| wait.number == number)?;
    let harmless = match wait.harm {
        Harm::None => true,
        Harm::Mask(at) => arguments[at] == 0,
        Harm::MaskWithin => arguments[5] == 0 || word(arguments[5]) == Some(0),
        Harm::Flags(at, flags) => arguments[at] & flags == 0,
    };
    harmless.then_some(wait)
}

/// The number and the arguments in the text of `/proc/PID/task/TID/syscall`. `None` for a thread that runs or is in no call.
pub fn parse_call(text: &str) -> Option<(i64, [u64; 6])> {
    let mut fields = text.split_ascii_whitespace();
    let number: i64 = fields.next()?.parse().ok().filter(|number| *number >= 0)?;
    let mut arguments = [0; 6];
    for argument in &mut arguments {
        *argument = u64::from_str_radix(fields.next()?.strip_prefix("0x")?, 16).ok()?;
    }
    Some((number, arguments))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(number: i64, arguments: [u64; 6], word: Option<u64>) -> Option<&'static str> {
        harmless(number, &arguments, |_| word).map(|wait| wait.name)
    }

    #[test]
    fn waits_that_hold_a_mask_or_a_part_of_the_data_are_not_harmless() {
        assert_eq!(name(libc::SYS_poll, [1; 6], None), Some("poll"));
        assert_eq!(name(libc::SYS_ppoll, [1, 1, 1, 0, 0, 0], None), Some("ppoll"));
        assert_eq!(name(libc::SYS_ppoll, [1, 1, 1, 5, 8, 0], None), None);
        assert_eq!(name(libc::SYS_pselect6, [0; 6], None), Some("pselect6"));
        assert_eq!(name(libc::SYS_pselect6, [0, 0, 0, 0, 0, 9], Some(0)), Some("pselect6"));
        assert_eq!(name(libc::SYS_pselect6, [0, 0, 0, 0, 0, 9], Some(7)), None);
        assert_eq!(name(libc::SYS_pselect6, [0, 0, 0, 0, 0, 9], None), None, "what cannot be read may be a mask");
        assert_eq!(name(libc::SYS_recvfrom, [3, 0, 9, 0, 0, 0], None), Some("recvfrom"));
        assert_eq!(name(libc::SYS_recvfrom, [3, 0, 9, libc::MSG_WAITALL as u64, 0, 0], None), None);
        assert_eq!(name(libc::SYS_futex, [0; 6], None), None, "a lock may be waited for, with others held");
        assert_eq!(name(libc::SYS_write, [0; 6], None), None);
    }

    #[test]
    fn a_wait_that_goes_on_is_harmless_only_if_it_is_a_sleep_or_a_poll() {
        assert!(is_harmless_again("hrtimer_nanosleep") && is_harmless_again("poll_schedule_timeout.constprop.0"));
        assert!(!is_harmless_again("futex_wait_queue") && !is_harmless_again("0") && !is_harmless_again(""));
    }

    #[test]
    fn the_text_of_a_call_is_read() {
        let text = "7 0x7ffd 0x1 0xffffffff 0x0 0x0 0x8 0x7ffd0 0x7f00\n";
        assert_eq!(parse_call(text), Some((7, [0x7ffd, 1, 0xffff_ffff, 0, 0, 8])));
        assert_eq!(parse_call("running\n"), None);
        assert_eq!(parse_call("-1 0x7ffd 0x7f00\n"), None);
        assert_eq!(parse_call(""), None);
    }
}
