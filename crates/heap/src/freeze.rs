//! Stops all threads of a process while it is read, and lets them go on as if nothing had been. In: a process. Out: a value; while it
//! lives, the process stands still.
//!
//! The kernel ends some waits of a thread that is stopped: `epoll_wait`, `semtimedop` and reads with a time-out return EINTR, which few
//! programs expect without a signal. So such a call is made again when the thread goes on. Its time-out starts anew.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::marker::PhantomData;
use std::time::{Duration, Instant};

use crate::Trouble;

/// A thread that does not stop for so long waits for a device or a file system: nobody else shall wait for it.
const PATIENCE: Duration = Duration::from_secs(2);

/// A process that stands still until this is dropped. Only the thread that stopped it can let it go on.
///
/// Meanwhile that thread blocks all signals, and gets them afterwards: Ctrl-Z shall not stop the reader while the process stands still,
/// and Ctrl-C shall not end it before the calls are made again. The mask is that thread's own, so this protects a program whose other
/// threads, if any, block them too; the command freezes from its main and only thread. SIGKILL cannot be blocked: the kernel then lets
/// the process go on, and its waits may end with EINTR. Several of these in one thread have to be dropped in reverse order.
#[derive(Debug)]
pub struct Frozen {
    pid: u32,
    /// The threads that are traced, and for those that are stopped the signal that each was about to get, or 0.
    threads: BTreeMap<u32, Option<i32>>,
    /// Until all are let go: a field is dropped after what holds it.
    _blocked: Blocked,
    /// Not to be sent to another thread.
    here: PhantomData<*const ()>,
}

impl Frozen {
    /// Stops all threads of a process. If one cannot be stopped, the others go on, and that is an error.
    pub fn stop(pid: u32) -> Result<Frozen, Trouble> {
        let mut frozen = Frozen { pid, threads: BTreeMap::new(), _blocked: Blocked::new(), here: PhantomData };
        // Threads that still run can begin new ones.
        loop {
            let running: Vec<u32> = frozen.running().map_err(|error| frozen.trouble("reading its threads", error))?;
            if running.is_empty() {
                return Ok(frozen);
            }
            for tid in running {
                frozen.stop_thread(tid)?;
            }
        }
    }

    /// How long a process will stand still while a walk reads so many resident bytes, as measured on a quiet machine.
    pub fn expected_pause(resident: u64) -> Duration {
        Duration::from_millis(5) + Duration::from_millis(400).mul_f64(resident as f64 / (1_u64 << 30) as f64)
    }

    /// The threads that are neither stopped nor dead.
    fn running(&self) -> io::Result<Vec<u32>> {
        let entries = fs::read_dir(format!("/proc/{}/task", self.pid))?;
        let tids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let mut running = Vec::new();
        for tid in tids.filter(|tid| !self.threads.contains_key(tid)) {
            if !self.is_dead(tid)? {
                running.push(tid);
            }
        }
        Ok(running)
    }

    fn is_dead(&self, tid: u32) -> io::Result<bool> {
        match self.about(tid, "stat") {
            Ok(stat) => Ok(stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']))),
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH)) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// What the kernel says about a thread. The thread's name is in it, which can be any bytes.
    fn about(&self, tid: u32, file: &str) -> io::Result<String> {
        let text = fs::read(format!("/proc/{}/task/{tid}/{file}", self.pid))?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    fn stop_thread(&mut self, tid: u32) -> Result<(), Trouble> {
        if let Err(error) = ptrace(libc::PTRACE_SEIZE, tid, 0, 0) {
            return match self.is_dead(tid) {
                Ok(true) => Ok(()),
                Ok(false) => Err(self.refused(tid, error)),
                Err(error) => Err(self.trouble("reading the state of a thread", error)),
            };
        }
        self.threads.insert(tid, None);
        let _ = ptrace(libc::PTRACE_INTERRUPT, tid, 0, 0);
        let until = Instant::now() + PATIENCE;
        loop {
            match stopped(tid) {
                Ok(Stop::By(signal)) => {
                    self.threads.insert(tid, Some(signal));
                    return Ok(());
                }
                Ok(Stop::Ended) => {
                    self.threads.remove(&tid);
                    return Ok(());
                }
                Ok(Stop::NotYet) if Instant::now() < until => std::thread::sleep(Duration::from_micros(50)),
                Ok(Stop::NotYet) => {
                    let error = io::Error::new(io::ErrorKind::TimedOut, format!("thread {tid} does not stop"));
                    return Err(self.trouble("stopping it", error));
                }
                Err(error) => return Err(self.trouble("waiting until it stops", error)),
            }
        }
    }

    fn trouble(&self, what: &'static str, error: io::Error) -> Trouble {
        Trouble::of(self.pid, what, error)
    }

    /// Why the kernel does not let a thread be stopped: nobody may trace what another process traces.
    fn refused(&self, tid: u32, error: io::Error) -> Trouble {
        let number = |status: &str, name| field(status, name).and_then(|text| text.parse::<u32>().ok());
        let tracer = self.about(tid, "status").ok().and_then(|status| number(&status, "TracerPid"));
        let Some(tracer) = tracer.filter(|&tracer| tracer != 0) else { return self.trouble("stopping it", error) };
        // That is the thread that traces; its process has a number that users know.
        let status = fs::read(format!("/proc/{tracer}/status")).unwrap_or_default();
        let tracer = number(&String::from_utf8_lossy(&status), "Tgid").unwrap_or(tracer);
        let traced = format!("process {tracer} traces it already (a debugger?): end that first");
        self.trouble("stopping it", io::Error::other(traced))
    }

    /// Whether a signal ends the call of a thread that was about to get `signal`, or 0. If that cannot be known, it does: a program that
    /// gets EINTR too often makes its call again, and one that misses it may wait for ever.
    fn has_signal(&self, tid: u32, signal: i32) -> bool {
        self.about(tid, "status").map_or(true, |status| ends_call(&status, signal))
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        for (&tid, &signal) in &self.threads {
            let late = || if let Ok(Stop::By(signal)) = stopped(tid) { Some(signal) } else { None };
            // Only a thread that is stopped can be let go. The kernel lets others go when the thread that traces them ends.
            let Some(signal) = signal.or_else(late) else { continue };
            if !self.has_signal(tid, signal) {
                let _ = hide(tid);
            }
            let _ = ptrace(libc::PTRACE_DETACH, tid, 0, signal as usize);
        }
    }
}

/// This thread gets no signals while this lives.
struct Blocked {
    before: libc::sigset_t,
}

impl Blocked {
    fn new() -> Blocked {
        // SAFETY: all zeroes are a value of this structure of numbers. The calls write to both, which live until they return.
        unsafe {
            let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
            Blocked { before }
        }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: the mask is one that the kernel gave, and lives until the call returns.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut()) };
    }
}

impl std::fmt::Debug for Blocked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Blocked")
    }
}

/// Whether a thread gets a signal that ends its call, which it then has to. In: the text of its `status`, and the signal that it was about
/// to get, or 0. Only while a thread is traced, signals wait that it ignores: it shall not notice them.
fn ends_call(status: &str, signal: i32) -> bool {
    let mask = |name| field(status, name).and_then(|text| u64::from_str_radix(text, 16).ok()).unwrap_or(0);
    let by_default = [libc::SIGCHLD, libc::SIGCONT, libc::SIGURG, libc::SIGWINCH].map(bit).into_iter().sum::<u64>();
    let ignored = mask("SigIgn") | (by_default & !mask("SigCgt"));
    let waiting = (mask("SigPnd") | mask("ShdPnd")) & !mask("SigBlk");
    (bit(signal) | waiting) & !ignored != 0
}

/// A signal in a mask as the kernel prints it. 0 is none.
fn bit(signal: i32) -> u64 {
    if signal == 0 { 0 } else { 1 << (signal - 1) }
}

/// A field of a thread's `status`.
fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim()))
}

/// If a stop has ended the thread's call, lets it make the call again.
#[cfg(target_arch = "x86_64")]
fn hide(tid: u32) -> io::Result<()> {
    const USER_CODE: u64 = 0x33;
    const SYSCALL: i64 = 0x050f;
    // SAFETY: all zeroes are a value of this structure of numbers.
    let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    ptrace(libc::PTRACE_GETREGS, tid, 0, &raw mut registers as usize)?;
    let in_call = registers.cs == USER_CODE && registers.orig_rax as i64 >= 0;
    if !in_call || registers.rax as i64 != -i64::from(libc::EINTR) {
        return Ok(());
    }
    let instruction = ptrace(libc::PTRACE_PEEKTEXT, tid, registers.rip as usize - 2, 0)?;
    if instruction & 0xffff == SYSCALL {
        registers.rip -= 2;
        registers.rax = registers.orig_rax;
        registers.orig_rax = u64::MAX;
        ptrace(libc::PTRACE_SETREGS, tid, 0, &raw mut registers as usize)?;
    }
    Ok(())
}

#[cfg(not(target_arch = "x86_64"))]
fn hide(_tid: u32) -> io::Result<()> {
    Ok(())
}

/// What has become of a thread that was told to stop.
enum Stop {
    NotYet,
    Ended,
    /// It is stopped. It was about to get this signal, or 0.
    By(i32),
}

fn stopped(tid: u32) -> io::Result<Stop> {
    let mut status = 0;
    // SAFETY: the kernel writes to `status`, which lives until the call returns.
    match unsafe { libc::waitpid(tid as libc::pid_t, &mut status, libc::__WALL | libc::WNOHANG) } {
        0 => Ok(Stop::NotYet),
        -1 => Err(io::Error::last_os_error()),
        _ if !libc::WIFSTOPPED(status) => Ok(Stop::Ended),
        _ if status >> 16 == libc::PTRACE_EVENT_STOP => Ok(Stop::By(0)),
        _ => Ok(Stop::By(libc::WSTOPSIG(status))),
    }
}

#[cfg(target_env = "musl")]
type Request = libc::c_int;
#[cfg(not(target_env = "musl"))]
type Request = libc::c_uint;

/// One call of `ptrace`. What it reads or writes in this process is `data`, for the requests that take an address.
fn ptrace(request: Request, tid: u32, at: usize, data: usize) -> io::Result<i64> {
    // SAFETY: the variable is this thread's own. A word of -1 that was read is told from an error by it.
    unsafe { *libc::__errno_location() = 0 };
    // SAFETY: requests that use `data` as an address are given that of a live variable of the right type; the others use numbers.
    let result = unsafe { libc::ptrace(request, tid as libc::pid_t, at, data) };
    let error = io::Error::last_os_error();
    if result == -1 && error.raw_os_error() != Some(0) { Err(error) } else { Ok(result) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(pending: i32, blocked: i32, ignored: i32, caught: i32) -> String {
        let masks = [("SigPnd", 0), ("ShdPnd", pending), ("SigBlk", blocked), ("SigIgn", ignored), ("SigCgt", caught)];
        let lines = masks.map(|(name, signal)| format!("{name}:\t{:016x}\n", bit(signal)));
        format!("Name:\tprogram\n{}", lines.concat())
    }

    #[test]
    fn a_call_ends_by_a_signal_that_the_thread_notices() {
        use libc::{SIGCHLD, SIGTERM, SIGUSR1};
        assert!(!ends_call(&status(0, 0, 0, 0), 0));
        assert!(ends_call(&status(SIGTERM, 0, 0, 0), 0));
        assert!(ends_call(&status(SIGUSR1, 0, 0, SIGUSR1), 0));
        assert!(!ends_call(&status(SIGUSR1, SIGUSR1, 0, SIGUSR1), 0));
        assert!(!ends_call(&status(SIGUSR1, 0, SIGUSR1, 0), 0));
        assert!(!ends_call(&status(SIGCHLD, 0, 0, 0), 0));
        assert!(ends_call(&status(SIGCHLD, 0, 0, SIGCHLD), 0));
        assert!(ends_call(&status(0, 0, 0, SIGCHLD), SIGCHLD));
        assert!(!ends_call(&status(0, 0, 0, 0), SIGCHLD));
    }
}
