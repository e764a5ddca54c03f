//! Internal to [allocanary](https://docs.rs/allocanary): this crate has no stable API, and any release may change it.
//!
//! Calls in a process that runs: one of its threads is borrowed to give memory back, and to put the recorder in. In: a process
//! and what to call. Out: what was done, or why not.

#![deny(clippy::print_stdout, clippy::print_stderr, clippy::dbg_macro)]
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod attach;
pub mod give_back;
