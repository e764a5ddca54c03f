//! Internal to [allocanary](https://docs.rs/allocanary): this crate has no stable API, and any release may change it.
//!
//! The recorder is put into a process that runs, and taken out again, without a restart. Data flow in one direction:
//!
//! 1. `check` refuses a process in which that is not safe, or in which the library cannot be opened.
//! 2. `Recorder::ask` borrows a thread of the process, which opens the library and has it do what is asked. The library itself changes the
//!    tables of the process's modules (crate `tables`).
//! 3. `answer` puts what it says into words.

// This crate returns values. Only the command writes to a terminal.
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::dbg_macro)]

mod answer;
mod check;
mod recorder;

pub use allocanary_give_back::Refusal;
pub use allocanary_tables::Reply;
pub use check::{check, modules};
pub use recorder::{Asked, Recorder};
