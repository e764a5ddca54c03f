//! An allocator's own counters, read from outside without a walk. In: where they lie, which is looked for once in a process. Out: what
//! they say now, for the price of a few copies an arena.
//!
//! The numbers are addresses that the allocator has, and not resident pages: only a walk tells those.

use std::fs;
use std::io;
use std::os::unix::fs::FileExt;

use serde::{Deserialize, Serialize};

use crate::states::WORD_PRESENT;
use crate::walkers::{jemalloc, system};
use crate::{Live, Memory, PAGE, Trouble};

/// Where an allocator of a process has its counters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// glibc's.
    Glibc(system::counters::Place),
    /// jemalloc's.
    Jemalloc(jemalloc::counters::Place),
}

/// What an allocator counts. `None` is what it does not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Arenas.
    pub arenas: u64,
    /// Bytes that its arenas have from the kernel.
    pub system: Option<u64>,
    /// Of these, bytes that are free at the end of each arena.
    pub ends: Option<u64>,
    /// Bytes of blocks that have their own pages.
    pub mapped: Option<u64>,
    /// Bytes of pages that are in use.
    pub active: Option<u64>,
}

/// What can be copied of a process.
pub trait Source {
    /// Copies `into.len()` bytes from an address. Returns whether all were copied.
    fn copy(&self, at: u64, into: &mut [u8]) -> bool;

    /// A word.
    fn word(&self, at: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.copy(at, &mut bytes).then(|| u64::from_le_bytes(bytes))
    }
}

impl Place {
    /// What the counters say now. `None` if they are no longer there, as after an exec, or the process has ended.
    pub fn read(&self, source: &impl Source) -> Option<Counters> {
        match self {
            Place::Glibc(place) => place.read(source),
            Place::Jemalloc(place) => place.read(source),
        }
    }
}

/// Looks for the counters of every allocator in a process.
pub fn locate(memory: &dyn Memory) -> Vec<Place> {
    let glibc = system::counters::Place::find(memory).map(Place::Glibc);
    let jemalloc = jemalloc::counters::Place::find(memory).map(Place::Jemalloc);
    glibc.into_iter().chain(jemalloc).collect()
}

/// [`locate`] in a live process.
pub fn locate_in(pid: u32, until: Option<std::time::Instant>) -> Result<Vec<Place>, Trouble> {
    Live::open_until(pid, until).map(|live| locate(&live))
}

/// A live process. Only pages that are present are copied: others would be brought in from swap, or made.
#[derive(Debug)]
pub struct Remote {
    pid: u32,
    pagemap: fs::File,
}

impl Remote {
    /// Opens it. The error is the kernel's.
    pub fn open(pid: u32) -> io::Result<Remote> {
        Ok(Remote { pid, pagemap: fs::File::open(format!("/proc/{pid}/pagemap"))? })
    }

    /// Whether every page of a range is present.
    fn is_present(&self, from: u64, to: u64) -> bool {
        let (first, last) = (from / PAGE, to.saturating_sub(1) / PAGE);
        (first..=last).all(|page| {
            let mut word = [0; 8];
            let read = self.pagemap.read_exact_at(&mut word, page.saturating_mul(8));
            read.is_ok() && u64::from_le_bytes(word) & WORD_PRESENT != 0
        })
    }
}

impl Source for Remote {
    fn copy(&self, at: u64, into: &mut [u8]) -> bool {
        let Some(end) = at.checked_add(into.len() as u64) else { return false };
        if !self.is_present(at, end) {
            return false;
        }
        let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
        let remote = libc::iovec { iov_base: at as *mut libc::c_void, iov_len: into.len() };
        // SAFETY: `local` is the buffer that was borrowed for writing; the remote address is only used by the kernel, which checks it.
        let count = unsafe { libc::process_vm_readv(self.pid as libc::pid_t, &local, 1, &remote, 1, 0) };
        count == into.len() as isize
    }
}

/// A memory of a test.
#[cfg(test)]
impl Source for crate::fake::Fake {
    fn copy(&self, at: u64, into: &mut [u8]) -> bool {
        self.read(at, into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counters_of_this_process_are_those_of_a_walk() {
        let pid = std::process::id();
        let places = locate_in(pid, None).unwrap();
        let Some(Place::Glibc(_)) = places.first() else {
            return allocanary_testing::skipped::skipped("this process has no glibc that is known");
        };
        let own_pages = std::hint::black_box(vec![1_u8; 64 << 20]);
        let remote = Remote::open(pid).unwrap();
        let counters = places[0].read(&remote).unwrap();
        assert!(counters.arenas >= 1 && counters.system.unwrap() >= 1 << 16, "{counters:?}");
        assert!(counters.ends.unwrap() <= counters.system.unwrap(), "{counters:?}");
        assert!(counters.mapped.unwrap() >= std::hint::black_box(&own_pages).len() as u64, "{counters:?}");
        let text = serde_json::to_string(&places).unwrap();
        assert_eq!(serde_json::from_str::<Vec<Place>>(&text).unwrap(), places);
    }

    #[test]
    fn what_was_never_touched_is_not_touched() {
        let memory = vec![0_u8; 80 << 20];
        let at = (memory.as_ptr() as u64).next_multiple_of(PAGE) + 40 * PAGE;
        let remote = Remote::open(std::process::id()).unwrap();
        assert_eq!(remote.word(at), None);
        assert!(!remote.is_present(at, at + 8), "it was not made by the question");
        assert_eq!(remote.word(u64::MAX - 4), None);
    }
}
