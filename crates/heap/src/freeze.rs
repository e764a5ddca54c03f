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
use crate::ptrace::{Blocked, Stop, detach, ends_call, field, hide, interrupt, seize, stopped};

/// How long a thread may take to stop. One that takes longer waits for a device or a file system, and nobody shall wait
/// for it.
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

    /// How long a process will stand still while a walk reads `resident` bytes, as measured on a quiet machine.
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
        if let Err(error) = seize(tid) {
            return match self.is_dead(tid) {
                Ok(true) => Ok(()),
                Ok(false) => Err(self.refused(tid, error)),
                Err(error) => Err(self.trouble("reading the state of a thread", error)),
            };
        }
        self.threads.insert(tid, None);
        let _ = interrupt(tid);
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
                Ok(Stop::NotYet | Stop::AtCall) => {
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
            let _ = detach(tid, signal);
        }
    }
}
