//! Stops a process while it is read. The process continues when the value is dropped.
//!
//! Only the command traces a process, and it opens no file while the process is stopped. If it waited for a file system, the process would
//! stay stopped, and neither SIGKILL for the reader nor SIGCONT for the process would help. The command lets the process continue at the
//! announced time, whatever the child does.

use std::io;
use std::time::{Duration, Instant};

use crate::freeze::Frozen;
use crate::get::{asks, get, parsed};
use crate::ptrace;
use crate::trouble::ProcessTrouble;
use crate::what::{BrokerReply, BrokerRequest, ThreadRegisters};

/// How much longer than announced a process may be stopped.
pub(crate) const MORE: Duration = Duration::from_secs(1);

/// A stopped process.
#[derive(Debug)]
pub enum StoppedProcess {
    /// This process has stopped it.
    Here(Frozen),
    /// The command has stopped it, because this child has asked for it.
    Asked(u32),
}

impl StoppedProcess {
    /// Stops a process.
    pub fn stop(pid: u32) -> Result<StoppedProcess, ProcessTrouble> {
        if !asks() {
            return Frozen::stop(pid).map(StoppedProcess::Here);
        }
        get(&BrokerRequest::Stop(pid))
            .map(|_| StoppedProcess::Asked(pid))
            .map_err(|error| ProcessTrouble::of(pid, "stopping it", error))
    }

    /// Lets the process continue. An error means that it has already continued, so the reading is not of one moment.
    pub fn go_on(self) -> Result<(), ProcessTrouble> {
        let StoppedProcess::Asked(pid) = self else { return Ok(()) };
        std::mem::forget(self);
        get(&BrokerRequest::Continue(pid))
            .map(drop)
            .map_err(|error| ProcessTrouble::of(pid, "reading it while it was stopped", error))
    }

    /// The registers of its threads.
    pub fn registers(&self) -> Vec<ThreadRegisters> {
        match self {
            StoppedProcess::Here(frozen) => registers(frozen),
            StoppedProcess::Asked(pid) => {
                get(&BrokerRequest::Registers(*pid)).and_then(|given| parsed(&given.text)).unwrap_or_default()
            }
        }
    }
}

impl Drop for StoppedProcess {
    fn drop(&mut self) {
        if let StoppedProcess::Asked(pid) = self {
            let _ = get(&BrokerRequest::Continue(*pid));
        }
    }
}

fn registers(frozen: &Frozen) -> Vec<ThreadRegisters> {
    let of = |tid| ptrace::words(tid).map(|(stack, words)| ThreadRegisters { tid, stack, words }).ok();
    frozen.tids().filter_map(of).collect()
}

/// The command's side: the process that the child has asked it to stop.
#[derive(Debug, Default)]
pub(crate) struct Held(Option<(Frozen, Instant)>);

impl Held {
    /// When the process continues, whatever the child does.
    pub fn until(&self) -> Option<Instant> {
        self.0.as_ref().map(|(_, until)| *until)
    }

    /// Lets the process continue if its time is over.
    pub fn let_go_if_late(&mut self) {
        if self.until().is_some_and(|until| Instant::now() >= until) {
            self.0 = None;
        }
    }

    /// Answers a request about the stop. `None` if the request is about something else.
    pub fn give(&mut self, what: &BrokerRequest) -> Option<io::Result<BrokerReply>> {
        self.let_go_if_late();
        Some(match what {
            BrokerRequest::Stop(pid) => self.stop(*pid),
            BrokerRequest::Registers(_) => match &self.0 {
                Some((frozen, _)) => serde_json::to_string(&registers(frozen))
                    .map(|text| BrokerReply { text, ..BrokerReply::default() })
                    .map_err(io::Error::other),
                None => Err(late()),
            },
            BrokerRequest::Continue(_) => self.0.take().map(|_| BrokerReply::default()).ok_or_else(late),
            _ if self.0.is_some() && what.touches_files() => {
                Err(io::Error::other("no file is opened while the process is stopped"))
            }
            _ => return None,
        })
    }

    fn stop(&mut self, pid: u32) -> io::Result<BrokerReply> {
        if self.0.is_some() {
            return Err(io::Error::other("another process is stopped"));
        }
        let resident = crate::get::resident(pid);
        let frozen = Frozen::stop(pid).map_err(|trouble| io::Error::other(trouble.to_string()))?;
        self.0 = Some((frozen, Instant::now() + Frozen::expected_pause(resident) + MORE));
        Ok(BrokerReply::default())
    }
}

fn late() -> io::Error {
    io::Error::other(
        "it was let go after the announced pause and 1 s, before it was read: try again, or read it without a stop",
    )
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::what::ProcFile;

    #[test]
    fn a_stopped_process_continues_in_time_and_no_file_of_it_is_opened_before() {
        let mut process = Command::new("sleep").arg("600").spawn().unwrap();
        let pid = process.id();
        let is_stopped = || {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
            stat.contains(") t ")
        };
        let mut held = Held::default();
        held.give(&BrokerRequest::Stop(pid)).unwrap().unwrap();
        assert!(is_stopped());
        // A file of the kernel needs no answer of a file system.
        assert!(held.give(&BrokerRequest::Proc(pid, ProcFile::Maps)).is_none());
        let refused = held.give(&BrokerRequest::Executable(pid)).expect("it is about the stop").unwrap_err();
        assert!(refused.to_string().contains("no file is opened"), "{refused}");
        let until = held.until().unwrap();
        assert!(until <= Instant::now() + Frozen::expected_pause(crate::get::resident(pid)) + MORE);
        // The announced time is over.
        held.0.as_mut().unwrap().1 = Instant::now();
        let late = held.give(&BrokerRequest::Continue(pid)).unwrap().unwrap_err();
        assert!(late.to_string().contains("it was let go") && held.until().is_none() && !is_stopped(), "{late}");
        process.kill().unwrap();
        process.wait().unwrap();
    }
}
