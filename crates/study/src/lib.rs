//! Internal to [allocanary](https://docs.rs/allocanary): this crate has no stable API, and any release may change it.
//!
//! The parent's side of a study. Data flow in one direction, and each step passes them on in a file or a pipe:
//!
//! 1. A [`Study`] (TOML, flags) and the available cells make a plan: a list of cells in shuffled rounds.
//! 2. [`run`] starts one fresh process for each cell. The process answers with a sample.
//! 3. Samples are [`rows`] of a file. Each row is flushed at once, so that no measurement is lost.
//! 4. A [`summary`] folds rows into medians, intervals and verdicts.
//!
//! Measuring writes rows. Every report is made from rows, by the crate `allocanary-report`.

// This crate returns numbers and texts. Only the command writes to a terminal.
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::dbg_macro)]

pub mod run;
pub mod session;
mod study;

pub use study::{
    CASES, Full, MOST_CELLS, PROGRAM_CANDIDATES, SHIPPED, Shipped, Sized, Studies, Study, StudyFile, expected_seconds,
    expected_time, find_shipped, memory_at_hand, plan, too_many,
};
