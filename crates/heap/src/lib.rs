//! Internal to [allocanary](https://docs.rs/allocanary): this crate has no stable API, and any release may change it.
//!
//! The heap of another process, taken apart from outside: without a restart, a preload, symbols or a stop. Data flow in one direction:
//!
//! 1. A [`Memory`] is read: a live process, a core file, or bytes in a test. Only pages that are present are read, so that reading adds
//!    nothing to the process.
//! 2. Each of the [`walkers`] looks for its allocator's structures, which prove themselves, and walks them.
//! 3. It puts what it finds on the pages of a [`Layout`]: blocks that are live, cached, free, and the allocator's own structures.
//! 4. The [`Parts`] of a layout are bytes that are resident, by what they are. They add up to what the kernel counts.
//! 5. A [`Reading`] is all of a process: its heaps, the memory that is no `malloc`'s, and how sure that is. Its [`answer`] is a
//!    sentence, and two readings have a [`Difference`].
//!
//! What a process holds must not harm who reads it: a [`Reader`] does all this in a child, with a time and an amount of memory.
//!
//! A process that runs is walked up to three times ([`best_of`]), or stopped meanwhile ([`Frozen`]).
//!
//! All parsing works on copied bytes: whatever they are, a walker neither panics nor hangs.

// This crate returns numbers and texts. Only the command writes to a terminal.
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::dbg_macro)]

pub mod answer;
mod build_id;
mod core_file;
mod counted;
pub mod counters;
mod difference;
#[cfg(test)]
mod fake;
mod files;
mod freeze;
mod inside;
mod layout;
mod live;
mod mapping;
mod memory;
mod others;
mod pace;
mod pages;
mod parts;
pub mod ptrace;
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
mod walk;
pub mod walkers;
mod window;

pub use core_file::CoreFile;
pub use counted::{Counted, counted, parse_smaps};
pub use difference::{Change, Difference, signed};
pub use files::{Fact, FileId};
pub use freeze::Frozen;
pub use layout::{Block, Kind, Layout, Stretch};
pub use live::{Live, Trouble, file_of};
pub use mapping::{Mapping, parse_maps};
pub use memory::{Memory, Thread};
pub use others::{Area, Sort};
pub use pages::{PAGE, Pages, Run, State};
pub use parts::{PARTS, Part, Parts};
pub use reader::Reader;
pub use reading::{ArenaParts, Heap, Kernel, Map, Reading, Remedy, SCHEMA, Sure};
pub use resident::resident;
pub use rows::{Row, rows, together};
pub use subject::{Subject, named, processes, tree};
pub use take::{How, Shares, take, take_core, take_with};
pub use walk::{Arena, Check, Forecast, Unknown, Walk, Walked, Walker, best_of, walk_all};
pub use window::Window;
