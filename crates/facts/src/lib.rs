//! Internal to [allocanary](https://docs.rs/allocanary): this crate has no stable API, and any release may change it.
//!
//! Facts about each allocator, one folder for each: its names, settings with their bounds, variables, libraries, and the call that gives
//! memory back.

#![deny(clippy::print_stdout, clippy::print_stderr, clippy::dbg_macro)]
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods))]
mod all;
pub mod const_text;
pub mod descriptor;
pub mod dimension;
pub mod environment;
pub mod hoard;
pub mod jemalloc;
pub mod library;
pub mod mesh;
pub mod mimalloc;
pub mod musl;
pub mod notice;
pub mod paste;
pub mod remedy;
pub mod request;
pub mod rpmalloc;
pub mod setting;
pub mod snmalloc;
pub mod system;
pub mod tcmalloc;

/// A setting that only preloads have: a thread that has waited for this time gives memory back.
pub const THREAD_IDLE: &str = "thread_idle";

/// A setting that `install!` and preloads have for each allocator: the memory limit. Unused memory is given back before the process reaches
/// it.
pub const MEMORY_BUDGET: &str = "memory_budget";

pub use all::{ALL, our, our_names, ours, suggested};
