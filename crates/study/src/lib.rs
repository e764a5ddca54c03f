//! Internal to [allocanary](https://docs.rs/allocanary): this crate promises nothing, and any release may change it.
//!
//! The parent's side of a study. Data flow one way, and every arrow is a file or a pipe that can be looked at:
//!
//! 1. a [`Study`] (TOML, flags) and the cells that were found make a plan: a list of cells in shuffled rounds;
//! 2. [`run`] starts one fresh process for each cell, which answers with a sample;
//! 3. samples are [`rows`] of a file, flushed one by one: what was measured is never lost;
//! 4. a [`summary`] folds rows into medians, intervals and verdicts;
//! 5. [`reports`] show them.
//!
//! Measuring writes rows, and every view starts from rows.

// Numbers and texts are returned: only the command writes to a terminal.
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::dbg_macro)]

pub mod error;
pub mod report;
pub mod reports;
pub mod rows;
pub mod run;
mod study;
pub mod summary;

pub use study::{
    CASES, Full, MOST_CELLS, Published, SHIPPED, Shipped, Sized, Studies, Study, StudyFile, expected, find_shipped,
    memory_at_hand, plan, too_many,
};
