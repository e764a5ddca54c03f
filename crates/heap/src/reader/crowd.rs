//! Reads many processes, several at a time, and passes on each reading as soon as it is made.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use super::{Cost, ReadRequest, Reader, ReadingSource, user_of};
use crate::{ProcessTrouble, Reading, Shares};

/// Limits and options for reading many processes.
#[derive(Clone, Copy, Debug)]
pub struct Crowd {
    /// The number of processes that are read at the same time.
    pub workers: usize,
    /// The memory of all children together, in bytes.
    pub memory: u64,
    /// The time for each process.
    pub time: Duration,
    /// Whether the readings have maps.
    pub map: bool,
    /// Whether and how the shares of pages are read.
    pub shares: Shares,
}

/// One worker for each usable processor, but only few on a large machine, because the processes that are read need the
/// processors themselves.
pub fn workers() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(4)
}

/// The least memory of a child, in bytes. With less, little would remain besides the child's own program.
pub const LEAST: u64 = 64 << 20;

impl Crowd {
    /// Reads all processes. Calls `tell` with each reading as soon as it is made, in no particular order. After the first error of `tell`,
    /// no more processes are read.
    ///
    /// Each worker has an equal part of the memory. A process for which this is not enough is read at the end, alone, with the whole
    /// memory.
    pub fn read<E>(
        &self,
        pids: &[u32],
        mut tell: impl FnMut(u32, Result<Reading, ProcessTrouble>) -> Result<(), E>,
    ) -> Result<(), E> {
        let most = (self.memory / LEAST).max(1) as usize;
        // A reader needs a new child for each change of user. So the processes of a user come one after the other.
        let mut pids = pids.to_vec();
        pids.sort_by_cached_key(|pid| user_of(*pid));
        let pids = &pids[..];
        let workers = self.workers.clamp(1, pids.len().max(1)).min(most);
        let part = self.memory / workers as u64;
        let mut large = Vec::new();
        self.pass(pids, workers, part, |pid, read| match read {
            Err(ProcessTrouble::Costly { cost: Cost::Memory(_), .. }) if workers > 1 => {
                large.push(pid);
                Ok(())
            }
            read => tell(pid, read),
        })?;
        self.pass(&large, 1, self.memory, tell)
    }

    fn pass<E>(
        &self,
        pids: &[u32],
        workers: usize,
        memory: u64,
        mut tell: impl FnMut(u32, Result<Reading, ProcessTrouble>) -> Result<(), E>,
    ) -> Result<(), E> {
        let next = AtomicUsize::new(0);
        let (sender, receiver) = sync_channel(workers);
        let work = |sender: std::sync::mpsc::SyncSender<_>| {
            let mut reader = Reader::new(memory);
            while let Some(pid) = pids.get(next.fetch_add(1, Ordering::Relaxed)) {
                let of = ReadingSource::Process { pid: *pid, stopped: false, shares: self.shares };
                let read = reader.read(&ReadRequest { of, time: self.time, map: self.map });
                // After an error there is no receiver.
                if sender.send((*pid, read)).is_err() {
                    break;
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..workers.min(pids.len()) {
                let sender = sender.clone();
                scope.spawn(move || work(sender));
            }
            drop(sender);
            // The receiver is dropped at the end of this call, so the workers end after an error.
            receiver.into_iter().try_for_each(|(pid, read)| tell(pid, read))
        })
    }
}
