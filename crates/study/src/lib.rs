//! Internal to [allocanary](https://docs.rs/allocanary): this crate has no stable API, and any release may change it.
//!
//! What measures: studies and their plans, the one loop that runs cells and the user's program, the search for settings,
//! and builds of other versions of an allocator. In: what the user wants to know. Out: rows, and findings of a search.

#![deny(clippy::print_stdout, clippy::print_stderr, clippy::dbg_macro)]
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod builds;
pub mod program;
pub mod search;
pub mod session;
