//! An allocator's own counters, read from outside without a walk. In: where they lie, which is looked for once in a process. Out: what
//! they say now, for the cost of a few copies an arena.
//!
//! The numbers are addresses that the allocator has, and not resident pages: only a walk tells those.

use serde::{Deserialize, Serialize};

pub use crate::counts::{AllocatorCounters, MemoryReader};
use crate::{Memory, jemalloc, system};

/// Where an allocator of a process has its counters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CounterPlace {
    /// glibc's.
    Glibc(system::counters::GlibcPlace),
    /// jemalloc's.
    Jemalloc(jemalloc::counters::JemallocPlace),
}

impl CounterPlace {
    /// What the counters say now. `None` if they are no longer there, as after an exec, or the process has ended.
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
