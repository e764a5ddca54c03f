//! Internal to [allocanary](https://docs.rs/allocanary), which re-exports the wrappers. Any release may change this
//! crate.
//!
//! Wrappers around an allocator that observe its calls: [`Counting`], with the feature `leaks` `Leaks`, and with the
//! feature `record` `Recording`.

// Numbers and texts are returned; only the command writes to a terminal.
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::dbg_macro)]

pub mod counting;
#[cfg(feature = "leaks")]
pub mod leaks;
#[cfg(feature = "record")]
pub mod recording;

pub use counting::Counting;
#[cfg(feature = "leaks")]
pub use leaks::Leaks;
#[cfg(feature = "record")]
pub use recording::Recording;
