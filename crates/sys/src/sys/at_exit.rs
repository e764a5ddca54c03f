//! The most resident memory of a program, at the moment of its exit. In: a command. Out: bytes.
//!
//! Only the kernel knows the peak of a program that runs for milliseconds, and it tells it only while the program exists: `ru_maxrss` also
//! has the peak of the process that called exec, which may be larger. So a thread of ours traces the program, which stops only for its
//! signals and at its exit (`PTRACE_O_TRACEEXIT`, ptrace(2)). Where tracing is not permitted, nothing is known.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use super::children::change_of;
use super::shared_page::SharedPage;
use crate::proc::ProcStatus;

/// How often the tracer looks for the child, and the child for its tracer.
const PAUSE: Duration = Duration::from_micros(200);
/// The times that the child looks: for two seconds at least. Without a tracer by then it goes on.
const LOOKS: u32 = 10_000;
/// The time that the tracer has to answer after the program has ended.
const LAST: Duration = Duration::from_secs(1);

/// What the child and its tracer tell each other, in a page that a fork does not copy.
#[derive(Default)]
struct Words {
    /// The child's process ID; 0 before the fork.
    child: AtomicU32,
    /// Whether the child need not wait any longer.
    goes_on: AtomicBool,
    /// Whether nobody wants to know any more.
    is_over: AtomicBool,
}

/// A program whose exit is awaited.
pub struct AtExit {
    words: Arc<SharedPage<Words>>,
    answer: Receiver<Option<u64>>,
}

impl Drop for AtExit {
    fn drop(&mut self) {
        self.words.is_over.store(true, Ordering::Release);
    }
}

impl AtExit {
    /// Prepares a command: the program that it starts next is traced from its first moment to its exit.
    pub fn of(command: &mut Command) -> std::io::Result<AtExit> {
        // SAFETY: atomics alone, of which each may be 0.
        let words: Arc<SharedPage<Words>> = Arc::new(unsafe { SharedPage::new() }?);
        let (childs, tracers) = (words.clone(), words.clone());
        let (sender, answer) = channel();
        let trace = move || {
            let _ = sender.send(trace(&tracers));
        };
        std::thread::Builder::new().name("at exit".into()).spawn(trace)?;
        let wait = move || {
            childs.wait_for_tracer();
            Ok(())
        };
        // SAFETY: between fork and exec it makes system calls, and reads and writes atomics. It allocates nothing.
        unsafe { command.pre_exec(wait) };
        Ok(AtExit { words, answer })
    }

    /// The most resident memory of the program, which has ended; `None` if it could not be read.
    pub fn most_resident(&self) -> Option<u64> {
        self.answer.recv_timeout(LAST).ok().flatten()
    }
}

impl Words {
    /// Called by the child.
    fn wait_for_tracer(&self) {
        // SAFETY: returns a number.
        self.child.store(unsafe { libc::getpid() } as u32, Ordering::Release);
        let pause = libc::timespec { tv_sec: 0, tv_nsec: PAUSE.subsec_nanos() as _ };
        for _ in 0..LOOKS {
            if self.goes_on.load(Ordering::Acquire) {
                return;
            }
            // SAFETY: reads a timespec of ours.
            unsafe { libc::nanosleep(&pause, null_mut()) };
        }
    }
}

/// Traces the child until it exits. `None` if it may not be traced, or ends without a stop, as a killed process does.
fn trace(words: &Words) -> Option<u64> {
    let pid = loop {
        match words.child.load(Ordering::Acquire) {
            0 if words.is_over.load(Ordering::Acquire) => return None,
            0 => std::thread::sleep(PAUSE),
            pid => break pid,
        }
    };
    let is_seized = ptrace(libc::PTRACE_SEIZE, pid, libc::PTRACE_O_TRACEEXIT as usize);
    words.goes_on.store(true, Ordering::Release);
    if !is_seized {
        return None;
    }
    while let Some(stop) = stop_of(pid, words) {
        let (signal, event) = (stop & 0xff, stop >> 8);
        // A request fails if the child was killed meanwhile: the next wait says so.
        match event {
            libc::PTRACE_EVENT_EXIT => {
                let most = ProcStatus::of(pid).ok().and_then(|status| status.most_resident);
                ptrace(libc::PTRACE_DETACH, pid, 0);
                return most;
            }
            // A signal that stops the whole program has done so: it waits for SIGCONT.
            libc::PTRACE_EVENT_STOP if signal != libc::SIGTRAP => ptrace(libc::PTRACE_LISTEN, pid, 0),
            0 => ptrace(libc::PTRACE_CONT, pid, signal as usize),
            _ => ptrace(libc::PTRACE_CONT, pid, 0),
        };
    }
    None
}

/// Waits for the next stop of a traced child, and leaves it as it is. `None` if it has ended, or if nobody wants to know any more: then the
/// end of this thread lets it go.
fn stop_of(pid: u32, words: &Words) -> Option<i32> {
    loop {
        let change = change_of(pid, libc::WSTOPPED | libc::WEXITED | libc::WNOWAIT);
        match change {
            _ if words.is_over.load(Ordering::Acquire) => return None,
            Ok(None) => std::thread::sleep(PAUSE),
            Ok(Some((libc::CLD_TRAPPED | libc::CLD_STOPPED, status))) => return Some(status),
            _ => return None,
        }
    }
}

#[cfg(target_env = "musl")]
type Request = libc::c_int;
#[cfg(not(target_env = "musl"))]
type Request = libc::c_uint;

/// A request about a child that this thread traces; whether it was done.
fn ptrace(request: Request, pid: u32, data: usize) -> bool {
    // SAFETY: these requests read and write no memory of ours.
    unsafe { libc::ptrace(request, pid as libc::pid_t, 0usize, data) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::{reap, signal};

    #[expect(clippy::zombie_processes, reason = "`reap` waits for it")]
    fn run(name: &str, arguments: &[&str]) -> (i32, Option<u64>) {
        let mut command = Command::new(name);
        command.args(arguments);
        let at_exit = AtExit::of(&mut command).unwrap();
        let child = command.spawn().unwrap();
        let status = loop {
            match reap(child.id()).unwrap() {
                Some((status, _)) => break status,
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        };
        (status, at_exit.most_resident())
    }

    /// The memory of this process is no part of it, although the kernel carries it over into `ru_maxrss`.
    #[test]
    fn a_program_of_a_millisecond_has_its_own_peak() {
        let large = vec![1u8; 64 << 20];
        for (name, arguments) in [("true", &[][..]), ("ls", &["/"]), ("sh", &["-c", "exit 3"])] {
            let (status, most) = run(name, arguments);
            let most = most.expect("a child may be traced");
            assert!((200 << 10..16 << 20).contains(&most), "{name}: {most}");
            assert_eq!(libc::WEXITSTATUS(status), if name == "sh" { 3 } else { 0 }, "{name}");
        }
        assert!(large.iter().all(|byte| *byte == 1));
    }

    /// Signals reach the program as if nobody traced it.
    #[test]
    fn a_signal_is_handled_ignored_or_ends_the_program() {
        let handled = "trap 'exit 7' USR1; kill -USR1 $$; sleep 5";
        assert_eq!(libc::WEXITSTATUS(run("sh", &["-c", handled]).0), 7);
        let ignored = "trap '' USR1; kill -USR1 $$; exit 4";
        assert_eq!(libc::WEXITSTATUS(run("sh", &["-c", ignored]).0), 4);
        assert_eq!(libc::WTERMSIG(run("sh", &["-c", "kill -TERM $$"]).0), libc::SIGTERM);
        assert_eq!(libc::WTERMSIG(run("sh", &["-c", "kill -KILL $$"]).0), libc::SIGKILL);
        let stopped = "(sleep 0.2; kill -CONT $$) & kill -STOP $$; exit 5";
        assert_eq!(libc::WEXITSTATUS(run("sh", &["-c", stopped]).0), 5);
    }

    #[test]
    #[expect(clippy::zombie_processes, reason = "`reap` waits for it")]
    fn a_program_that_runs_is_killed_and_a_command_that_is_not_started_is_forgotten() {
        let mut command = Command::new("sleep");
        command.arg("600");
        let at_exit = AtExit::of(&mut command).unwrap();
        let child = command.spawn().unwrap();
        assert!(reap(child.id()).unwrap().is_none(), "it runs");
        signal(child.id(), false, libc::SIGKILL);
        while reap(child.id()).unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let _ = at_exit.most_resident();
        drop(AtExit::of(&mut Command::new("true")).unwrap());
    }

    /// The child of a command that cannot be started exits, too. Its stop does not hold up anybody.
    #[test]
    fn a_program_that_is_not_there_is_an_error() {
        let mut command = Command::new("/no/such/program");
        let at_exit = AtExit::of(&mut command).unwrap();
        assert!(command.spawn().is_err());
        drop(at_exit);
    }
}
