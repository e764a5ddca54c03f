//! Internal to [allocanary](https://docs.rs/allocanary): any release may change this crate. The table has a version.
//!
//! An always-on profile of a program's heap. The program samples some of its allocations, and keeps those that are alive in a table of
//! fixed size in its memory, with their stacks. Other processes can read the table at any time.
//!
//! - [`weight`] has the arithmetic: which allocations are sampled, and how many bytes a sample represents.
//! - [`layout`] is the layout of the table, which the crate `sampler` fills inside the program.
//! - [`reader`] reads the table of another process, whose content may be anything.
//! - [`interval`] says how far an estimate may be off.
//! - [`own`] tells the project's own functions from those of the program.
//! - `pprof` (feature of the same name) is the format that other tools read.

// Numbers and texts are returned; only the command writes to a terminal.
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::dbg_macro)]
#![forbid(unsafe_code)]

pub mod interval;
pub mod layout;
pub mod own;
#[cfg(feature = "pprof")]
pub mod pprof;
pub mod reader;
pub mod weight;
