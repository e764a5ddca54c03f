//! The states of a whole process in which none of its threads is borrowed. In: the text of `/proc/PID/status`. Out: the first reason, or
//! the signal that reports the end of a call.

use std::fs;

use allocanary_heap::ptrace::{bit, field};

use crate::Refusal;

/// Signals that the kernel drops if no handler takes them. Those that programs use least come first.
const NOTICES: [i32; 2] = [libc::SIGURG, libc::SIGWINCH];

/// Refuses a process whose state forbids the call. Otherwise returns the signal that reports the end of a call. The states of the threads are
/// examined later.
pub fn check(pid: u32) -> Result<i32, Refusal> {
    if pid == std::process::id() {
        let instead = "Name another process";
        return Err(Refusal::State { pid, state: "that is this command itself".into(), instead });
    }
    let text = fs::read(format!("/proc/{pid}/status"));
    let text = text.map_err(|error| Refusal::of(pid, "reading its state", error))?;
    let text = String::from_utf8_lossy(&text);
    if let Some((state, instead)) = problem(&text, thread_group_of) {
        return Err(Refusal::State { pid, state, instead });
    }
    notice(&text).ok_or_else(|| {
        let state = "it takes both SIGURG and SIGWINCH, by one of which the end of the call is noticed".into();
        Refusal::State { pid, state, instead: "Have the program make the call itself" }
    })
}

/// The first of these signals for which the process has no handler.
fn notice(status: &str) -> Option<i32> {
    let taken = field(status, "SigCgt").and_then(|text| u64::from_str_radix(text, 16).ok())?;
    NOTICES.into_iter().find(|signal| taken & bit(*signal) == 0)
}

/// The process to which a tracing thread belongs.
fn thread_group_of(tid: u32) -> u32 {
    let text = fs::read_to_string(format!("/proc/{tid}/status")).unwrap_or_default();
    field(&text, "Tgid").and_then(|text| text.parse().ok()).unwrap_or(tid)
}

/// What forbids the call, and what to do instead.
fn problem(status: &str, process_of: impl Fn(u32) -> u32) -> Option<(String, &'static str)> {
    let number = |name| field(status, name).and_then(|text| text.parse::<u32>().ok()).unwrap_or(0);
    let tracer = number("TracerPid");
    if tracer != 0 {
        let state = format!("process {} traces it already (a debugger?)", process_of(tracer));
        return Some((state, "End that first"));
    }
    match field(status, "State").and_then(|text| text.chars().next()) {
        Some('T' | 't') => return Some(("it is stopped".into(), "Let it go on first: `kill -CONT`")),
        Some('Z' | 'X') => {
            return Some((
                "it has ended, and its parent has not asked for its exit code".into(),
                "Nothing is left to give back",
            ));
        }
        _ => {}
    }
    if field(status, "x86_Thread_features")
        .is_some_and(|features| features.split_whitespace().any(|one| one == "shstk"))
    {
        let state = "it runs with a shadow stack, which refuses a call that the program did not make".into();
        return Some((state, "Have the program make the call itself"));
    }
    if number("Seccomp") == 1 {
        return Some((
            "it runs in seccomp's strict mode, which allows no call for memory".into(),
            "Restart it instead",
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(text: &str) -> Option<String> {
        problem(text, |tid| tid - 1).map(|(state, _)| state)
    }

    #[test]
    fn each_state_that_forbids_it_is_named() {
        assert_eq!(state("State:\tS (sleeping)\nTracerPid:\t0\nSigIgn:\t0000000000001000\nSeccomp:\t2\n"), None);
        assert!(state("TracerPid:\t8\n").unwrap().contains("process 7 traces"));
        assert!(state("State:\tT (stopped)\nTracerPid:\t0\n").unwrap().contains("stopped"));
        assert!(state("State:\tZ (zombie)\n").unwrap().contains("ended"));
        assert!(state("x86_Thread_features:\tshstk wrss\n").unwrap().contains("shadow stack"));
        assert_eq!(state("x86_Thread_features:\t\n"), None);
        assert!(state("Seccomp:\t1\n").unwrap().contains("strict"));
    }

    #[test]
    fn a_signal_that_nobody_takes_tells_the_end() {
        assert_eq!(notice("SigCgt:\t0000000000000000\n"), Some(libc::SIGURG));
        assert_eq!(notice("SigCgt:\t0000000000400000\n"), Some(libc::SIGWINCH));
        assert_eq!(notice("SigCgt:\t0000000008400000\n"), None);
        assert_eq!(notice(""), None, "not told");
    }

    #[test]
    fn this_process_is_refused() {
        assert!(check(std::process::id()).unwrap_err().to_string().contains("this command itself"));
        assert!(matches!(check(0x3fff_ffff), Err(Refusal::Trouble(allocanary_heap::Trouble::Gone(_)))));
    }
}
