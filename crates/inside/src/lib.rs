//! Internal to [allocanary](https://docs.rs/allocanary): this crate has no stable API, and any release may change it.
//!
//! Makes calls in a running process: one of its threads is borrowed to give memory back, or to put the recorder into the process.

#![deny(clippy::print_stdout, clippy::print_stderr, clippy::dbg_macro)]
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod attach;
pub mod give_back;
