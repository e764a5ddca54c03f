//! Internal to [allocanary](https://docs.rs/allocanary): any release may change this crate.
//!
//! What all outputs write in the same way: numbers with their units, texts that come from outside, and command lines that a user pastes.

#![forbid(unsafe_code)]
// Texts are returned; only the command writes to a terminal.
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::dbg_macro)]

#[cfg(feature = "serde")]
pub mod bound;
pub mod foreign;
pub mod outside;
pub mod parts;
pub mod paste;
#[cfg(feature = "serde")]
pub mod seconds;
pub mod units;

pub use foreign::Foreign;
pub use parts::{Part, Parts};
