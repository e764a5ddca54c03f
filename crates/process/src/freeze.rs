//! Stops all threads of a process while it is read, and then lets them continue, so that the process notices nothing. The process is
//! stopped as long as a [`Frozen`] exists.
//!
//! The kernel ends some waits of a stopped thread: `epoll_wait`, `semtimedop` and reads with a time-out return EINTR.
//! Few programs expect this without a signal. So the thread makes such a call again when it continues. The time-out of
//! the call then starts anew.

use std::collections::BTreeMap;
use std::io;
use std::marker::PhantomData;
use std::time::{Duration, Instant};

use allocanary_sys::proc::pids::tids;
use allocanary_sys::proc::{ProcStatus, Stat};

use crate::ptrace::{SignalMask, StopState, detach, ends_call, hide, interrupt, seize, stopped};
use crate::trouble::ProcessTrouble;

/// How long a thread may take to stop. A thread that takes longer waits for a device or a file system. The other
/// threads must not be stopped during this.
const PATIENCE: Duration = Duration::from_secs(2);

/// A stopped process. It continues when this is dropped. Only the thread that stopped it can let it continue.
///
/// During this time, the stopping thread blocks all signals, and gets them afterwards. Ctrl-Z must not stop the reader
/// while the process is stopped, and Ctrl-C must not end the reader before the process's calls are made again. The
/// signal mask belongs to this thread. So other threads of the program, if there are any, must block these signals too;
/// the command stops a process from its main and only thread. SIGKILL cannot be blocked: the kernel then lets the
/// process continue, and its waits may end with EINTR. If one thread has several of these values, it must drop them in
/// reverse order.
#[derive(Debug)]
pub struct Frozen {
    pid: u32,
    /// The traced threads. A stopped one has the signal that it was about to get, or 0.
    threads: BTreeMap<u32, Option<i32>>,
    /// Blocks signals until all threads continue: a struct's fields are dropped after the struct's own `drop`.
    _blocked: SignalMask,
    /// Keeps the value on this thread.
    here: PhantomData<*const ()>,
}

impl Frozen {
    /// Stops all threads of a process. If a thread cannot be stopped, this is an error, and the others continue.
    pub fn stop(pid: u32) -> Result<Frozen, ProcessTrouble> {
        let mut frozen = Frozen { pid, threads: BTreeMap::new(), _blocked: SignalMask::new(), here: PhantomData };
        // Threads that still run may start new threads.
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

    /// How long a process is stopped while a walk reads `resident` bytes, as measured on a quiet machine.
    pub fn expected_pause(resident: u64) -> Duration {
        Duration::from_millis(5) + Duration::from_millis(400).mul_f64(resident as f64 / (1_u64 << 30) as f64)
    }

    /// The IDs of its threads.
    pub(crate) fn tids(&self) -> impl Iterator<Item = u32> {
        self.threads.keys().copied()
    }

    /// The threads that are not yet stopped, and are not dead.
    fn running(&self) -> io::Result<Vec<u32>> {
        let mut running = Vec::new();
        for tid in tids(self.pid)?.into_iter().filter(|tid| !self.threads.contains_key(tid)) {
            if !self.is_dead(tid)? {
                running.push(tid);
            }
        }
        Ok(running)
    }

    fn is_dead(&self, tid: u32) -> io::Result<bool> {
        match Stat::of_thread(self.pid, tid) {
            Ok(stat) => Ok(stat.has_ended()),
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH)) => Ok(true),
            Err(error) => Err(error),
        }
    }

    fn stop_thread(&mut self, tid: u32) -> Result<(), ProcessTrouble> {
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
                Ok(StopState::By(signal)) => {
                    self.threads.insert(tid, Some(signal));
                    return Ok(());
                }
                Ok(StopState::Ended) => {
                    self.threads.remove(&tid);
                    return Ok(());
                }
                Ok(StopState::NotYet) if Instant::now() < until => std::thread::sleep(Duration::from_micros(50)),
                Ok(StopState::NotYet | StopState::AtCall) => {
                    let error = io::Error::new(io::ErrorKind::TimedOut, format!("thread {tid} does not stop"));
                    return Err(self.trouble("stopping it", error));
                }
                Err(error) => return Err(self.trouble("waiting until it stops", error)),
            }
        }
    }

    fn trouble(&self, what: &'static str, error: io::Error) -> ProcessTrouble {
        ProcessTrouble::of(self.pid, what, error)
    }

    /// Why the kernel does not allow this thread to be stopped: another process may trace it already.
    fn refused(&self, tid: u32, error: io::Error) -> ProcessTrouble {
        let tracer = ProcStatus::of_thread(self.pid, tid).ok().and_then(|status| status.tracer);
        let Some(tracer) = tracer.filter(|&tracer| tracer != 0) else { return self.trouble("stopping it", error) };
        // The tracer is a thread. Users know the number of its process.
        let tracer = ProcStatus::of(tracer).ok().and_then(|status| status.process).unwrap_or(tracer);
        let traced = format!("process {tracer} traces it already (a debugger?): end that first");
        self.trouble("stopping it", io::Error::other(traced))
    }

    /// Whether a signal ends the present call of a thread that was about to get `signal`, or 0. If this cannot be
    /// known, the answer is yes: a program that gets EINTR too often makes its call again, but a program that misses an
    /// EINTR may wait for ever.
    fn has_signal(&self, tid: u32, signal: i32) -> bool {
        ProcStatus::of_thread(self.pid, tid).map_or(true, |status| ends_call(&status, signal))
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        for (&tid, &signal) in &self.threads {
            let late = || if let Ok(StopState::By(signal)) = stopped(tid) { Some(signal) } else { None };
            // Only a stopped thread can be released. The kernel releases the others when the tracing thread ends.
            let Some(signal) = signal.or_else(late) else { continue };
            if !self.has_signal(tid, signal) {
                let _ = hide(tid);
            }
            let _ = detach(tid, signal);
        }
    }
}
