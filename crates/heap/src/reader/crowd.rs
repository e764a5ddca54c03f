//! Many processes, several at a time. In: their numbers. Out: each reading as it comes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use super::{Cost, Of, Reader, Request};
use crate::{Reading, Shares, Trouble};

/// How many processes are read.
#[derive(Clone, Copy, Debug)]
pub struct Crowd {
    /// How many at a time.
    pub workers: usize,
    /// The memory of all children together, in bytes.
    pub memory: u64,
    /// The time for each process.
    pub time: Duration,
    /// Whether maps are wanted.
    pub map: bool,
    /// What is read of how many processes have a page.
    pub shares: Shares,
}

/// A worker for each processor that may be used, and few on a large machine: the processes that are read need it themselves.
pub fn workers() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(4)
}

/// A child with less memory than this has little beside its own program.
pub const LEAST: u64 = 64 << 20;

impl Crowd {
    /// Reads all of them. `tell` gets each when it is read, in no order; after its first error no more are read.
    ///
    /// Each worker has its part of the memory. A process for which that is not enough is read at the end, alone, with all of it.
    pub fn read<E>(
        &self,
        pids: &[u32],
        mut tell: impl FnMut(u32, Result<Reading, Trouble>) -> Result<(), E>,
    ) -> Result<(), E> {
        let most = (self.memory / LEAST).max(1) as usize;
        let workers = self.workers.clamp(1, pids.len().max(1)).min(most);
        let part = self.memory / workers as u64;
        let mut large = Vec::new();
        self.pass(pids, workers, part, |pid, read| match read {
            Err(Trouble::Costly { cost: Cost::Memory(_), .. }) if workers > 1 => {
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
        mut tell: impl FnMut(u32, Result<Reading, Trouble>) -> Result<(), E>,
    ) -> Result<(), E> {
        let next = AtomicUsize::new(0);
        let (sender, receiver) = sync_channel(workers);
        let work = |sender: std::sync::mpsc::SyncSender<_>| {
            let mut reader = Reader::new(memory);
            while let Some(pid) = pids.get(next.fetch_add(1, Ordering::Relaxed)) {
                let of = Of::Process { pid: *pid, stopped: false, shares: self.shares };
                let read = reader.read(&Request { of, time: self.time, map: self.map });
                // Nobody listens any more after an error.
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
            // The receiver goes with this call, so that workers end after an error.
            receiver.into_iter().try_for_each(|(pid, read)| tell(pid, read))
        })
    }
}
