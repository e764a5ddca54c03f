//! Internal to [allocanary](https://docs.rs/allocanary): this crate has no stable API, and any release may change it.
//!
//! What is measured and how it is judged. It starts no process and knows no study.
//!
//! 1. [`metrics`] are the figures that a row can have, with their names and units.
//! 2. [`rows`] reads files of samples and makes the lines of which they consist.
//! 3. A [`summary`] folds rows into medians, intervals and verdicts.
//!
//! The crate `allocanary-study` writes rows, and `allocanary-screens` shows what is found in them.

// This crate returns numbers and texts. Only the command writes to a terminal.
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::dbg_macro)]
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod metrics;
pub mod rows;
pub mod summary;
pub mod trial;
