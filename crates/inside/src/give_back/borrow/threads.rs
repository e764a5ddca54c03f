//! Lists the threads of a process that can be borrowed, the most harmless first: those whose wait can be interrupted without a loss. Also
//! says what the other threads do.

use std::collections::BTreeMap;

use allocanary_heap::Memory;
use allocanary_heap::ptrace::ends_call;
use allocanary_sys::proc::ProcStatus;
use allocanary_sys::proc::files::{ThreadFile, thread_path};
use allocanary_sys::proc::pids::tids;
use allocanary_sys::sys::read_whole;

use crate::give_back::borrow::waits::{self, SyscallState, Wait};

/// A thread that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitingThread {
    /// The thread ID.
    pub tid: u32,
    /// The kind of its wait.
    pub wait: &'static Wait,
    /// What the kernel reports about the call.
    pub told: SyscallState,
    /// The number of the call. If the kernel only reports that a call continues, it is the number of the call that continues.
    pub number: Option<i64>,
}

impl WaitingThread {
    /// The name of the call in which it waits, even if the kernel only reports that a call continues.
    pub fn name(&self) -> &'static str {
        let number = self.number.filter(|_| self.wait.name == waits::AGAIN);
        let same = number.and_then(|number| waits::ALL.iter().find(|one| one.number == number));
        same.unwrap_or(self.wait).name
    }
}

/// The threads of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Threads {
    /// The threads that can be borrowed, the most harmless first.
    pub waiting: Vec<WaitingThread>,
    /// What the others do, and how many do it.
    pub others: BTreeMap<String, usize>,
    /// All threads that sleep, in any call.
    pub asleep: Vec<(u32, SyscallState)>,
}

impl Threads {
    /// Examines every thread.
    pub fn of(memory: &dyn Memory, pid: u32) -> Threads {
        let mut threads = Threads::default();
        for tid in tids(pid).unwrap_or_default() {
            let text = |file: ThreadFile| {
                let bytes = read_whole(thread_path(pid, tid, file)).unwrap_or_default();
                String::from_utf8_lossy(&bytes).into_owned()
            };
            let status = ProcStatus::of_thread(pid, tid).unwrap_or_default();
            let told = waits::parse_call(&text(ThreadFile::Syscall));
            threads.asleep.extend(told.filter(|_| status.state == Some('S')).map(|told| (tid, told)));
            match what(&status, told, |at| memory.word(at)) {
                Ok((wait, _)) if wait.name == waits::AGAIN && !waits::is_harmless_again(&text(ThreadFile::Wchan)) => {
                    *threads.others.entry("waiting again, it is not known for what".into()).or_default() += 1;
                }
                Ok((wait, told)) => {
                    // This must be read before the thread is stopped: for a stopped thread the kernel reports the stop.
                    let number = match told.number {
                        libc::SYS_restart_syscall => waits::again(&text(ThreadFile::Wchan), &told.arguments),
                        number => Some(number),
                    };
                    threads.waiting.push(WaitingThread { tid, wait, told, number });
                }
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

    /// Advice that depends on what they do.
    pub fn help(&self) -> &'static str {
        let all = |word: &str| !self.others.is_empty() && self.others.keys().all(|does| does.contains(word));
        if all("futex") {
            return "All wait for each other, and this does not change: have a thread of the program that sleeps or polls, such as a timer, or \
                    have it make the call itself. `allocanary doctor` has settings for its next start";
        }
        if all("begin anew") {
            return "Take an --every that is longer than these time-outs";
        }
        "Try again later, or have the program make the call itself"
    }
}

/// The wait of a thread from its status and its system call. The error is what it does instead.
fn what(
    status: &ProcStatus,
    told: Option<SyscallState>,
    word: impl Fn(u64) -> Option<u64>,
) -> Result<(&'static Wait, SyscallState), String> {
    if status.state != Some('S') {
        return Err(match status.state {
            Some('R') => "running".into(),
            Some('D') => "waiting for a device".into(),
            Some('T' | 't') => "stopped".into(),
            _ => "ended".into(),
        });
    }
    if ends_call(status, 0) {
        return Err("about to get a signal".into());
    }
    let Some(told) = told else { return Err("in no system call".into()) };
    let wait = waits::harmless(told.number, &told.arguments, word).ok_or_else(|| match told.number {
        libc::SYS_futex => "waiting for another thread (futex)".into(),
        libc::SYS_write | libc::SYS_writev | libc::SYS_sendto | libc::SYS_sendmsg => "writing".to_string(),
        libc::SYS_rt_sigtimedwait | libc::SYS_rt_sigsuspend => "waiting for a signal".into(),
        _ => format!("in system call {}", told.number),
    });
    wait.map(|wait| (wait, told))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLEEPS: &str = "State:\tS (sleeping)\nSigPnd:\t0\nShdPnd:\t0\nSigBlk:\t0\nSigIgn:\t0\nSigCgt:\t0\n";

    #[test]
    fn only_a_thread_that_sleeps_in_a_harmless_call_waits() {
        let of = |status: &str, call: &str| {
            { what(&ProcStatus::parse(status.as_bytes()), waits::parse_call(call), |_| None) }
                .map(|(wait, _)| wait.name)
        };
        let poll = format!("{} 0x1 0x1 0x1 0x0 0x0 0x0 0x1 0x1", libc::SYS_ppoll);
        let poll = poll.as_str();
        assert_eq!(of(SLEEPS, poll), Ok("ppoll"));
        assert_eq!(of("State:\tR (running)\n", poll), Err("running".into()));
        assert_eq!(of(&SLEEPS.replace("ShdPnd:\t0", "ShdPnd:\t4000"), poll), Err("about to get a signal".into()));
        let lock = format!("{} 0x1 0x6 0x0 0x0 0x0 0x0 0x1 0x1", libc::SYS_futex);
        assert_eq!(of(SLEEPS, &lock), Err("waiting for another thread (futex)".into()));
        assert_eq!(of(SLEEPS, "running"), Err("in no system call".into()));
    }

    #[test]
    fn what_others_do_is_counted() {
        let threads = Threads { others: [("running".into(), 2), ("writing".into(), 1)].into(), ..Threads::default() };
        assert_eq!(threads.words(), "2 running, 1 writing");
        assert_eq!(Threads::default().words(), "none was found");
        assert!(threads.help().starts_with("Try again later"));
        let locked =
            Threads { others: [("waiting in futex for another thread".into(), 4)].into(), ..Threads::default() };
        assert!(locked.help().contains("such as a timer"));
    }
}
