//! Internal to [allocanary](https://docs.rs/allocanary): this crate has no stable API, and any release may change it.
//!
//! What is known of each allocator, a folder each: its names, settings with their bounds, variables, libraries, and the call that gives
//! memory back. In: nothing. Out: tables.

#![deny(clippy::print_stdout, clippy::print_stderr, clippy::dbg_macro)]
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods))]

