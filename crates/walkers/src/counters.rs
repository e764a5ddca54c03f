//! Reads an allocator's own counters from outside, without a walk. Finding their addresses is done once in a process. Each reading then
//! costs a few copies an arena.
//!
//! The counters measure address space that the allocator has, not resident pages. Only a walk gives resident pages.

use serde::{Deserialize, Serialize};

pub use crate::counts::{AllocatorCounters, MemoryReader};
use crate::{Memory, jemalloc, system};

/// The addresses of an allocator's counters in one process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CounterPlace {
    /// The counters of glibc.
    Glibc(system::counters::GlibcPlace),
    /// The counters of jemalloc.
    Jemalloc(jemalloc::counters::JemallocPlace),
}

impl CounterPlace {
    /// The present values. `None` if the process has ended, or the counters are no longer there, as after an exec.
    pub fn read(&self, source: &impl MemoryReader) -> Option<AllocatorCounters> {
        match self {
            CounterPlace::Glibc(place) => place.read(source),
            CounterPlace::Jemalloc(place) => place.read(source),
        }
    }
}

/// Looks for the counters of every allocator in a process.
pub fn locate(memory: &dyn Memory) -> Vec<CounterPlace> {
    let glibc = system::counters::GlibcPlace::find(memory).map(CounterPlace::Glibc);
    let jemalloc = jemalloc::counters::JemallocPlace::find(memory).map(CounterPlace::Jemalloc);
    glibc.into_iter().chain(jemalloc).collect()
}
