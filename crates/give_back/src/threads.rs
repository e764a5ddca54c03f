//! The threads of a process that can be borrowed: those that wait where nothing is lost. In: `/proc/PID/task`. Out: these threads, the
//! most harmless first, and what the others do.

use std::collections::BTreeMap;
use std::fs;

use allocanary_heap::Memory;
use allocanary_heap::ptrace::{ends_call, field};

use crate::waits::{self, Wait};

/// A thread that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Its number.
    pub tid: u32,
    /// The call that it waits in.
    pub wait: &'static Wait,
}

/// The threads of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Threads {
    /// Those that can be borrowed, the most harmless first.
    pub waiting: Vec<Waiting>,
    /// What the others do, and how many of them.
    pub others: BTreeMap<String, usize>,
}

impl Threads {
    /// Looks at every thread.
    pub fn of(memory: &dyn Memory, pid: u32) -> Threads {
        let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let tids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let mut threads = Threads::default();
        for tid in tids {
            let text = |file: &str| {
                let bytes = fs::read(format!("/proc/{pid}/task/{tid}/{file}")).unwrap_or_default();
                String::from_utf8_lossy(&bytes).into_owned()
            };
            match what(&text("status"), &text("syscall"), |at| memory.word(at)) {
                Ok(wait) if wait.name == waits::AGAIN && !waits::is_harmless_again(&text("wchan")) => {
                    *threads.others.entry("waiting again, it is not known for what".into()).or_default() += 1;
                }
                Ok(wait) => threads.waiting.push(Waiting { tid, wait }),
                Err(does) => *threads.others.entry(does).or_default() += 1,
            }
        }
        threads.waiting.sort_by_key(|one| (one.wait.rank, one.tid));
        threads
    }

    /// What the threads do that cannot be borrowed, in words.
    pub fn words(&self) -> String {
        let words: Vec<String> = self.others.iter().map(|(does, count)| format!("{count} {does}")).collect();
        if words.is_empty() { "none was found".into() } else { words.join(", ") }
    }
}

/// The wait of a thread, or what else it does. In: its `status` and its `syscall`.
fn what(status: &str, call: &str, word: impl Fn(u64) -> Option<u64>) -> Result<&'static Wait, String> {
    let state = field(status, "State").and_then(|text| text.chars().next());
    if state != Some('S') {
        return Err(match state {
            Some('R') => "running".into(),
            Some('D') => "waiting for a device".into(),
            Some('T' | 't') => "stopped".into(),
            _ => "ended".into(),
        });
    }
    if ends_call(status, 0) {
        return Err("about to get a signal".into());
    }
    let Some((number, arguments)) = waits::parse_call(call) else {
        return Err(if call.is_empty() { "not to be looked at".into() } else { "in no system call".into() });
    };
    waits::harmless(number, &arguments, word).ok_or_else(|| match number {
        libc::SYS_futex => "waiting for another thread (futex)".into(),
        libc::SYS_write | libc::SYS_writev | libc::SYS_sendto | libc::SYS_sendmsg => "writing".into(),
        libc::SYS_rt_sigtimedwait | libc::SYS_rt_sigsuspend => "waiting for a signal".into(),
        _ => format!("in system call {number}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLEEPS: &str = "State:\tS (sleeping)\nSigPnd:\t0\nShdPnd:\t0\nSigBlk:\t0\nSigIgn:\t0\nSigCgt:\t0\n";

    #[test]
    fn only_a_thread_that_sleeps_in_a_harmless_call_waits() {
        let of = |status: &str, call: &str| what(status, call, |_| None).map(|wait| wait.name);
        let poll = "7 0x1 0x1 0x1 0x0 0x0 0x0 0x1 0x1";
        assert_eq!(of(SLEEPS, poll), Ok("poll"));
        assert_eq!(of("State:\tR (running)\n", poll), Err("running".into()));
        assert_eq!(of(&SLEEPS.replace("ShdPnd:\t0", "ShdPnd:\t4000"), poll), Err("about to get a signal".into()));
        assert_eq!(of(SLEEPS, "202 0x1 0x0 0x0 0x0 0x0 0x0 0x1 0x1"), Err("waiting for another thread (futex)".into()));
        assert_eq!(of(SLEEPS, "running"), Err("in no system call".into()));
        assert_eq!(of(SLEEPS, ""), Err("not to be looked at".into()));
    }

    #[test]
    fn what_others_do_is_counted() {
        let threads = Threads { others: [("running".into(), 2), ("writing".into(), 1)].into(), ..Threads::default() };
        assert_eq!(threads.words(), "2 running, 1 writing");
        assert_eq!(Threads::default().words(), "none was found");
    }
}
