//! Checks the state of a whole process in `/proc/PID/status`. In some states none of its threads is borrowed.

use allocanary_heap::ptrace::bit;
use allocanary_sys::proc::ProcStatus;

use crate::give_back::Refusal;

/// Signals that the kernel drops if they have no handler. Those that programs use least come first. On aarch64 the end of a call is noticed
/// without a signal.
const NOTICES: &[i32] = if cfg!(target_arch = "aarch64") { &[] } else { &[libc::SIGURG, libc::SIGWINCH] };

/// Refuses a process whose state forbids the call. Otherwise returns the signal that reports the end of a call, if one is needed. The states of the threads are
/// examined later.
pub fn check(pid: u32) -> Result<Option<i32>, Refusal> {
    if pid == std::process::id() {
        let instead = "Name another process";
        return Err(Refusal::State { pid, state: "that is this command itself".into(), instead });
    }
    let status = ProcStatus::of(pid).map_err(|error| Refusal::of(pid, "reading its state", error))?;
    if let Some((state, instead)) = problem(&status, process_of) {
        return Err(Refusal::State { pid, state, instead });
    }
    if NOTICES.is_empty() {
        return Ok(None);
    }
    notice(&status).map(Some).ok_or_else(|| {
        let state = "it takes both SIGURG and SIGWINCH, by one of which the end of the call is noticed".into();
        Refusal::State { pid, state, instead: "Have the program make the call itself" }
    })
}

/// The first of these signals for which the process has no handler.
fn notice(status: &ProcStatus) -> Option<i32> {
    let taken = status.caught?;
    NOTICES.iter().copied().find(|signal| taken & bit(*signal) == 0)
}

/// The process to which a tracing thread belongs.
fn process_of(tid: u32) -> u32 {
    ProcStatus::of(tid).ok().and_then(|status| status.process).unwrap_or(tid)
}

/// What forbids the call, and what to do instead.
fn problem(status: &ProcStatus, process_of: impl Fn(u32) -> u32) -> Option<(String, &'static str)> {
    if let Some(tracer) = status.tracer.filter(|tracer| *tracer != 0) {
        let state = format!("process {} traces it already (a debugger?)", process_of(tracer));
        return Some((state, "End that first"));
    }
    match status.state {
        Some('T' | 't') => return Some(("it is stopped".into(), "Let it go on first: `kill -CONT`")),
        Some('Z' | 'X') if status.threads.is_some_and(|threads| threads > 1) => {
            return Some((
                "its first thread has ended, and the others go on".into(),
                "Have the program make the call itself",
            ));
        }
        Some('Z' | 'X') => {
            return Some((
                "it has ended, and its parent has not asked for its exit code".into(),
                "Nothing is left to give back",
            ));
        }
        _ => {}
    }
    if status.has_shadow_stack {
        let state = "it runs with a shadow stack, which refuses a call that the program did not make".into();
        return Some((state, "Have the program make the call itself"));
    }
    if status.seccomp == Some(1) {
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
        problem(&ProcStatus::parse(text.as_bytes()), |tid| tid - 1).map(|(state, _)| state)
    }

    #[test]
    fn each_state_that_forbids_it_is_named() {
        assert_eq!(state("State:\tS (sleeping)\nTracerPid:\t0\nSigIgn:\t0000000000001000\nSeccomp:\t2\n"), None);
        assert!(state("TracerPid:\t8\n").unwrap().contains("process 7 traces"));
        assert!(state("State:\tT (stopped)\nTracerPid:\t0\n").unwrap().contains("stopped"));
        assert!(state("State:\tZ (zombie)\nThreads:\t1\n").unwrap().starts_with("it has ended"));
        assert!(state("State:\tZ (zombie)\nThreads:\t3\n").unwrap().starts_with("its first thread has ended"));
        assert!(state("x86_Thread_features:\tshstk wrss\n").unwrap().contains("shadow stack"));
        assert_eq!(state("x86_Thread_features:\t\n"), None);
        assert!(state("Seccomp:\t1\n").unwrap().contains("strict"));
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn a_signal_that_nobody_takes_tells_the_end() {
        let told = |caught| notice(&ProcStatus { caught, ..ProcStatus::default() });
        assert_eq!(told(Some(0)), Some(libc::SIGURG));
        assert_eq!(told(Some(bit(libc::SIGURG))), Some(libc::SIGWINCH));
        assert_eq!(told(Some(bit(libc::SIGURG) | bit(libc::SIGWINCH))), None);
        assert_eq!(told(None), None, "not told");
    }

    #[test]
    fn this_process_is_refused() {
        assert!(check(std::process::id()).unwrap_err().to_string().contains("this command itself"));
        assert!(matches!(check(0x3fff_ffff), Err(Refusal::Trouble(allocanary_heap::ProcessTrouble::Gone(_)))));
    }
}
