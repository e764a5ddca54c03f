//! Internal to [allocanary](https://docs.rs/allocanary), which re-exports both wrappers. Any release may change this
//! crate.
//!
//! Wrappers around an allocator that observe its calls: [`Counting`] and, with the feature `leaks`, `Leaks`.

// Numbers and texts are returned; only the command writes to a terminal.
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::dbg_macro)]

pub mod counting;
#[cfg(feature = "leaks")]
pub mod leaks;

pub use counting::Counting;
#[cfg(feature = "leaks")]
pub use leaks::Leaks;
