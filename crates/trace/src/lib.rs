//! Internal to [allocanary](https://docs.rs/allocanary): any release may change this crate. A trace names the version of its format, and
//! a reader refuses any other version.
//!
//! A trace is a program's calls of the malloc family, recorded once and replayed under every allocator.
//!
//! - [`mod@format`] documents the bytes. [`coder`] writes and reads single events.
//! - The crate `recorder` writes a trace, inside of the recorded program. [`record`] sets the recorder up, and finds its traces.
//! - [`request`] is what a command asks the recorder in a running process, and the reply.
//! - [`reader`] finds the chunks of a file and reads each thread's events. [`merge`] puts the threads in one order.
//! - `pack` makes a trace smaller when its process has ended (feature `packed`).
//! - [`builder`] makes traces from a script, for tests and benches.
//! - [`stacks`] says where blocks were allocated, as plain data. [`predictor`] predicts the stack of an allocation, so that a trace has
//!   only the stacks that were not predicted.
//! - [`hash`] is a map for the numbers of a trace.
//! - [`info`] computes the figures of a trace.
//! - [`prepare`] makes the form of a trace that [`replay`] executes with the allocator of the process. [`placed`] says where the replay put
//!   the blocks.

// This crate returns numbers and texts. Only the command writes to a terminal.
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::dbg_macro)]
#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod blocks;
pub mod builder;
pub mod coder;
pub mod error;
pub mod format;
pub mod hash;
pub mod info;
mod layout;
mod mapped;
pub mod merge;
mod origin;
#[cfg(feature = "packed")]
pub mod pack;
pub mod placed;
pub mod predictor;
pub mod prepare;
pub mod reader;
pub mod record;
pub mod replay;
pub mod request;
pub mod stacks;
