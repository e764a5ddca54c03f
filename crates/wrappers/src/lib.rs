//! Internal to [allocanary](https://docs.rs/allocanary), which re-exports both: this crate promises nothing by itself, and any
//! release may change it.
//!
//! Allocators that wrap an allocator and observe what passes through: [`Counting`] and, with the feature `leaks`, `Leaks`.

// Numbers and texts are returned: only the command writes to a terminal.
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::dbg_macro)]

pub mod counting;
#[cfg(feature = "leaks")]
pub mod leaks;

pub use counting::Counting;
#[cfg(feature = "leaks")]
pub use leaks::Leaks;
