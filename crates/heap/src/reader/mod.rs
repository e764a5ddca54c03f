//! Reads other processes in a child, within limits. The memory of another process is not under our control: it may look like a heap that
//! takes gigabytes to read, and reading a page of it may never end. So a reading has a limit on time and on memory. Beyond these, it is an
//! error.
//!
//! The child is this program again. It has no rights: the command opens the files that the child reads. One child reads several processes
//! of the same user, one after the other, so that it reads facts about shared files only once. Processes of another user are read by a new
//! child, so that no user's process can affect the readings of another user's. A child that takes too long or has no memory left is killed,
//! and a new child gets the next request. A killed child may not end, because it waits in the kernel. Then nothing waits for it.

mod crowd;
mod request;
mod serve;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::{ProcessTrouble, ReadMode, Reading, Shares, take_core, take_with};
use allocanary_process::HeldChild;
pub use allocanary_process::{Cost, RequestSubject};
pub use crowd::{Crowd, LEAST, workers};
pub use request::{ReadRequest, ReaderReply, ReadingSource};
pub use serve::{serve, serve_here, serves};

/// The default memory limit of a child, including its program. For a heap of glibc with 2.1 GiB resident and 10 million
/// blocks, 25 MiB of addresses were needed. The program has 20 of these before it reads anything.
pub const MEMORY: u64 = 256 << 20;

/// Whether the `main` of this program can serve as such a child.
static CAN_SERVE: AtomicBool = AtomicBool::new(false);

/// Reads processes by a child. The child is started for the first reading.
#[derive(Debug)]
pub struct Reader {
    child: Option<HeldChild>,
    /// The user whose processes the child has read.
    user: Option<u32>,
    memory: u64,
    by_child: bool,
}

impl Reader {
    /// A reader whose child has this memory limit. If the program cannot be such a child, as in a test, the reader
    /// reads in its own process.
    pub fn new(memory: u64) -> Reader {
        Reader { child: None, user: None, memory, by_child: CAN_SERVE.load(Ordering::Relaxed) }
    }

    /// The number of the child, if there is one now.
    pub fn child(&self) -> Option<u32> {
        self.child.as_ref().map(HeldChild::pid)
    }

    /// Reads a process, as [`take`](crate::take) does.
    pub fn take(&mut self, pid: u32, how: ReadMode, time: Duration) -> Result<Reading, ProcessTrouble> {
        self.take_with(pid, how, Shares::NotRead, time)
    }

    /// Reads a process, as [`take_with`] does.
    pub fn take_with(
        &mut self,
        pid: u32,
        how: ReadMode,
        shares: Shares,
        time: Duration,
    ) -> Result<Reading, ProcessTrouble> {
        self.read(&ReadRequest {
            of: ReadingSource::Process { pid, stopped: how == ReadMode::Stopped, shares },
            time,
            map: true,
        })
    }

    /// Reads a core file, as [`take_core`] does.
    pub fn take_core(&mut self, path: &Path, time: Duration) -> Result<Reading, ProcessTrouble> {
        self.read(&ReadRequest { of: ReadingSource::Core(path.into()), time, map: true })
    }

    /// Carries out a request for a reading.
    pub fn read(&mut self, request: &ReadRequest) -> Result<Reading, ProcessTrouble> {
        if !self.by_child {
            return read_here(request);
        }
        match self.answer(request) {
            Ok(ReaderReply::Reading(reading)) => Ok(*reading),
            Ok(ReaderReply::Trouble(told)) => Err(told.into()),
            Ok(ReaderReply::Memory) => Err(request.costly(Cost::Memory(self.memory))),
            Ok(ReaderReply::Other(_)) => Err(request.costly(Cost::Ended("answered something else".into()))),
            Err(cost) => Err(request.costly(cost)),
        }
    }

    /// Has the child carry out another request. The function that was passed to `serve` answers it.
    pub fn ask(&mut self, text: &str, about: RequestSubject, time: Duration) -> Result<String, Cost> {
        if !self.by_child {
            return Err(Cost::Ended("cannot be started: this program serves none".into()));
        }
        match self.answer(&ReadRequest { of: ReadingSource::Other(text.into(), about), time, map: false })? {
            ReaderReply::Other(text) => Ok(text),
            ReaderReply::Memory => Err(Cost::Memory(self.memory)),
            _ => Err(Cost::Ended("answered something else".into())),
        }
    }

    /// The child's answer. A child that has exceeded a limit is dropped.
    fn answer(&mut self, request: &ReadRequest) -> Result<ReaderReply, Cost> {
        let about = request.about();
        // A request about several processes reads only numbers, and no process can harm the child by these.
        let user = match about.pids[..] {
            _ if about.is_stopped => self.user,
            [pid] => user_of(pid),
            _ => None,
        };
        let mut child = match self.child.take().filter(|_| self.user == user) {
            Some(child) => child,
            // A thread is stopped meanwhile: starting a child takes too long, and a new child has no files open.
            None if about.is_stopped => return Err(Cost::Ended("has ended before".into())),
            None => HeldChild::start(self.memory)?,
        };
        self.user = user;
        let line = serde_json::to_string(request).map_err(|error| Cost::Ended(error.to_string()))?;
        let until = Instant::now() + request.time_with_grace();
        let answer = child.ask(&line, &about, until, request.time, self.memory)?;
        let answer = serde_json::from_str(&answer).map_err(|error| Cost::Ended(format!("answered {error}")))?;
        // A child that had no memory left may still keep some of its memory, so it is not used again.
        if !matches!(answer, ReaderReply::Memory) {
            self.child = Some(child);
        }
        Ok(answer)
    }
}

/// The real user ID of a process. It comes from `/proc/PID/status`: the owner of the folder can be root if the process may not be
/// inspected.
pub fn user_of(pid: u32) -> Option<u32> {
    allocanary_process::status(pid).ok()?.users.map(|[real, ..]| real)
}

/// Reads in this process, without a child.
fn read_here(request: &ReadRequest) -> Result<Reading, ProcessTrouble> {
    let mut reading = match &request.of {
        ReadingSource::Process { pid, stopped, shares } => {
            take_with(*pid, if *stopped { ReadMode::Stopped } else { ReadMode::Running }, *shares, request.time)
        }
        ReadingSource::Core(path) => take_core(path, request.time),
        ReadingSource::Other(..) => Err(request.costly(Cost::Ended("was asked for something else".into()))),
    }?;
    if !request.map {
        reading.heaps.iter_mut().for_each(|heap| heap.map = crate::HeapMap::default());
    }
    Ok(reading)
}

#[cfg(test)]
mod tests;
