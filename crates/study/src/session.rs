//! The parent's side of a study. Data flow in one direction, and each step passes its result on in a file or a pipe:
//!
//! 1. A [`Study`] (TOML, flags) and the available cells make a [`plan`](plan()): a list of cells in shuffled rounds.
//! 2. A [`Session`] runs them one after the other. An [`Executor`] starts one fresh process for each: a linked cell
//!    ([`Linked`]), or the user's program ([`ProgramRunner`]).
//! 3. The [`RowsFile`] writes each sample as a row of a file, flushed at once, so that no measurement is lost.
//!
//! Measuring writes rows. Summaries and reports are made from rows, by the crates `allocanary-measure` and
//! `allocanary-screens`.

// This crate returns numbers and texts. Only the command writes to a terminal.

mod builder;
pub mod child;
mod earlier;
mod executor;

pub mod kept;
mod linked;
mod measurement;
pub mod place;
mod program;
mod roster;
mod running;
mod scripted;
mod store;
mod study;

pub use builder::Builder;
pub use earlier::{EarlierCells, other_file};
pub use executor::{CellOutcome, Executor};
pub use linked::Linked;
pub use measurement::{Measured, Measurement, OutOfBudget, RunProgress, StudiesEnd, StudyCells, planned, prefix};
pub use program::ProgramRunner;
pub use roster::{CellRefusal, Roster, check_folder, describe};
pub use running::{Ending, Session};
pub use scripted::{ScriptStep, Scripted};
pub use store::{Left, RowsFile, StudyFiles};
pub use study::{
    CASES, Full, MOST_CELLS, SHIPPED, Shipped, Sized, Studies, Study, StudyFile, expected_seconds, expected_time,
    find_shipped, memory_at_hand, plan, program_candidates, too_many,
};
