//! A study as it is measured: the one loop over its cells. In: cells in order, what runs them. Out: one row for each, even
//! if its process fails, passed on as soon as it exists.
//!
//! Studies of our own workloads ([`Linked`](crate::session::Linked)), runs of the user's program ([`ProgramRunner`](crate::session::ProgramRunner)) and
//! tests ([`Scripted`](crate::session::Scripted)) differ in
//! what runs a cell, and in nothing else.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::session::{CellOutcome, Executor};
use allocanary_rows::Cell;
use allocanary_rows::error::Result;
use allocanary_rows::sample::Sample;

/// One study's cells, to be run one after the other.
pub struct Session<'a> {
    /// What runs a cell.
    pub executor: &'a dyn Executor,
    /// The time after which a cell is killed.
    pub deadline: Duration,
    /// No round starts that would end later than this, counted from the start of the first cell. The first round always
    /// runs to its end, because a part of a round has not measured all candidates.
    pub budget: Option<Duration>,
    /// Set by Ctrl-C: the running cell is killed and no other starts.
    pub interrupted: &'a AtomicBool,
}

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// All cells have a row.
    Finished,
    /// The budget was used up; the number of cells that were not run.
    OutOfBudget(usize),
    /// The user stopped it; the number of cells that were not run.
    Interrupted(usize),
}

impl Session<'_> {
    /// Runs `cells` one after the other. `row` receives each sample. An error of `row`, such as a full disk, ends the
    /// session.
    pub fn run(&self, cells: &[Cell], mut row: impl FnMut(&Sample) -> Result<()>) -> Result<Ending> {
        let started = self.executor.now();
        let (mut round, mut longest) = (started, Duration::ZERO);
        for (done, cell) in cells.iter().enumerate() {
            let left = cells.len() - done;
            if done > 0 && cells[done - 1].repeat != cell.repeat {
                let now = self.executor.now();
                longest = longest.max(now - round);
                round = now;
                if self.budget.is_some_and(|budget| now - started + longest > budget) {
                    return Ok(Ending::OutOfBudget(left));
                }
            }
            if self.interrupted.load(Ordering::Relaxed) {
                return Ok(Ending::Interrupted(left));
            }
            match self.executor.run(cell, self.deadline, self.interrupted) {
                CellOutcome::Row(sample) => row(&sample)?,
                CellOutcome::Stopped => return Ok(Ending::Interrupted(left)),
            }
        }
        Ok(Ending::Finished)
    }
}

#[cfg(test)]
mod tests;
