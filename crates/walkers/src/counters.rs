//! An allocator's own counters, read from outside without a walk. In: where they lie, which is looked for once in a process. Out: what
//! they say now, for the price of a few copies an arena.
//!
//! The numbers are addresses that the allocator has, and not resident pages: only a walk tells those.

use serde::{Deserialize, Serialize};

use crate::{Memory, jemalloc, system};

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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Arenas.
    pub arenas: u64,
    /// Bytes that its arenas have from the kernel.
    pub system: Option<u64>,
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

/// A memory of a test.
impl Source for crate::fake::Fake {
    fn copy(&self, at: u64, into: &mut [u8]) -> bool {
        self.read(at, into)
    }
}
