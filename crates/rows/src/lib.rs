//! Internal to [allocanary](https://docs.rs/allocanary): this crate has no stable API, and any release may change it.
//!
//! What one process writes and another reads: what is asked of a cell and its answer, a row and where it is from, candidates,
//! an agent's report, and the errors that name them. Only data: nothing here measures.

#![deny(clippy::print_stdout, clippy::print_stderr, clippy::dbg_macro)]
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod error;
pub mod fleet;
pub mod spec;
