//! Internal to [allocanary](https://docs.rs/allocanary): this crate has no stable API, and any release may change it.
//!
//! Analyses the heap of another process from outside, without a restart, a preload, symbols or a stop. It does so in three steps:
//!
//! 1. A [`Memory`] is read: a live process, a core file, or bytes in a test. Only present pages are read, so that
//!    reading adds no memory to the process.
//! 2. The [walkers](allocanary_walkers) find the heaps of the allocators in it, and what is on the pages of each heap.
//! 3. A [`Reading`] describes the whole process: its heaps, the memory that does not belong to a `malloc`, and how certain the figures are.
//!    [`answer`] writes it as a sentence, and a [`Difference`] compares two readings.
//!
//! The memory of a process must not harm its reader. So a [`Reader`] does all this in a child, with limits on time and
//! memory.
//!
//! A running process is walked up to three times ([`best_of`]). If a heap changes too fast for a walk, it is analysed from a short copy of
//! its allocator's structures. Or the process is stopped during the walk ([`StoppedProcess`](allocanary_process::StoppedProcess)).

// This crate returns numbers and texts. Only the command writes to a terminal.
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::dbg_macro)]
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod answer;
mod apart;
mod copies;
mod core_file;
mod counted;
pub mod counters;
mod difference;
mod files;
mod inside;
mod live;
mod others;
mod pace;
mod profiled;
pub mod reader;
mod reading;
mod resident;
mod rows;
mod shares;
mod sparse;
mod states;
mod subject;
mod take;
mod unread;

/// The types for opening and stopping another process.
pub use allocanary_process::{Frozen, ProcessTrouble, ptrace};
/// The parts of a reading.
pub use allocanary_walkers::{
    ArenaStretch, BlockKind, CopyMoment, CopyRoom, CountCheck, Fact, Forecast, HeapArena, HeapBlock, HeapWalks, Layout,
    Machine, Mapping, Memory, MemoryCopy, OF_HEAP, PAGE, PARTS, PIECE, PageRun, PageState, PageStates, Part, Parts,
    Piece, Processor, ThreadId, Unknown, Walk, Walker, Window, best_of, parse_maps, walk_all, walked,
};
pub use core_file::CoreFile;
pub use counted::{MappingCount, counted, parse_smaps};
pub use difference::{CountChange, Difference, signed};
pub use live::LiveProcess;
pub use others::{Area, LargeMapping, Sort, thread_structure};
pub use reader::Reader;
pub use reading::{ArenaParts, Heap, HeapMap, KernelCounts, PartsCertainty, Reading, RemedyForecast, SCHEMA};
pub use resident::resident;
pub use rows::{PartRow, rows, together};
pub use subject::{ProcessSubject, named, processes, tree};
pub use take::{ReadMode, Shares, take, take_core, take_with};
