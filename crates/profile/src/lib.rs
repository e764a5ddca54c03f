//! Internal to [allocanary](https://docs.rs/allocanary): any release may change this crate. The table has a version.
//!
//! An always-on profile of a program's heap: some allocations are sampled, and a table of fixed size in the program's memory has the
//! sampled blocks that are alive, with their stacks. Nobody needs to ask for it: the table is read from outside.
//!
//! - [`weight`] has the arithmetic: which allocations are sampled, and how many bytes a sample stands for.
//! - [`layout`] is the table, as the crate `sampler` fills it, inside of the program, and the reader reads it.
//! - [`reader`] reads the table of another process, whose content may be anything.
//! - [`interval`] says how far an estimate may be off.
//! - `pprof` (feature of the same name) is the format that other tools read.

// Numbers and texts are returned; only the command writes to a terminal.
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::dbg_macro)]
#![forbid(unsafe_code)]

pub mod interval;
pub mod layout;
#[cfg(feature = "pprof")]
pub mod pprof;
pub mod reader;
pub mod weight;
