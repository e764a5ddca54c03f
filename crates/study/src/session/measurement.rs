//! The studies of a group, one after the other, into one file of rows. In: a group, the available cells, what runs them, a
//! target. Out: the cells that had no row yet have one, and how the studies ended.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;

use super::{EarlierCells, Ending, Executor, Session, kept};
use crate::session::{MOST_CELLS, Studies, Study, plan, too_many};
use crate::session::{RowsFile, StudyFiles};
use allocanary_rows::Cell;
use allocanary_rows::description::Description;
use allocanary_rows::error::{Error, Result};
use allocanary_rows::sample::Sample;

/// A study and cells of it, in order.
pub type StudyCells = (Study, Vec<Cell>);

/// Each study of the group with its cells in order. The places of a study start after those of the study before, so
/// that the rows alone determine the order of the studies.
///
/// Two sizes of one study must not share a cell: a row identifies its cell, but not the size that it was measured for.
pub fn planned(group: &Studies, cells: &[Description]) -> Result<Vec<StudyCells>> {
    let mut first = 0;
    let mut identities = BTreeSet::new();
    let mut studies = Vec::new();
    let counts = group.0.iter().map(|file| Ok(file.clone().check()?.count()));
    let count = counts.sum::<Result<u128>>()?;
    if count > MOST_CELLS {
        return Err(too_many(count, &format!(" ({} studies)", group.0.len())));
    }
    for file in &group.0 {
        let study = file.clone().check()?;
        let mut planned = plan(&study, cells).map_err(|error| match &file.name {
            Some(name) if group.0.len() > 1 => Error::Input(format!("{name}: {error}")),
            _ => error,
        })?;
        planned.iter_mut().for_each(|cell| cell.place += first);
        first = planned.iter().map(|cell| cell.place + 1).max().unwrap_or(first);
        if let Some(twice) = planned.iter().find(|cell| !identities.insert(cell.identity())) {
            let text = format!(
                "{}two of its sizes have the cell {}: give them other workloads or threads, or leave out --threads",
                prefix(study.name.as_deref()),
                twice.title()
            );
            return Err(Error::Input(text));
        }
        studies.push((study, planned));
    }
    Ok(studies)
}

/// The prefix of a line about one study of several.
pub fn prefix(name: Option<&str>) -> String {
    name.map_or(String::new(), |name| format!("{name}: "))
}

/// What is to be measured, with what, and where its rows go.
pub struct Measurement<'a> {
    /// The studies as the user requested them. They are kept next to the rows.
    pub group: &'a Studies,
    /// The available cells.
    pub cells: &'a [Description],
    /// What runs a cell.
    pub executor: &'a dyn Executor,
    /// Where to write the rows.
    pub target: &'a StudyFiles,
    /// Whether the target may already have rows.
    pub resume: bool,
    /// The command line, for the rows.
    pub command: String,
    /// Set by Ctrl-C.
    pub interrupted: &'a AtomicBool,
}

/// Receives the progress of a measurement.
pub trait RunProgress {
    /// The studies begin. Each comes with the cells that have no row yet.
    fn begins(&mut self, left: &[StudyCells]);
    /// The study with this index begins.
    fn study(&mut self, at: usize);
    /// A row was written.
    fn row(&mut self, sample: &Sample);
}

/// A measurement that has ended.
pub struct Measured {
    /// The rows.
    pub store: RowsFile,
    /// The target, which has a folder now.
    pub target: StudyFiles,
    /// How the studies ended; an error if a row could not be written.
    pub ended: Result<StudiesEnd>,
    /// The rows with a failure.
    pub failed: usize,
}

/// How several studies ended.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct StudiesEnd {
    /// The studies that used up their budgets.
    pub out_of_budget: Vec<OutOfBudget>,
    /// The number of cells that are left, if the user interrupted it.
    pub interrupted: Option<usize>,
}

/// A study that used up its budget.
#[derive(Debug, PartialEq, Eq)]
pub struct OutOfBudget {
    /// Its name.
    pub study: Option<String>,
    /// The cells that were not run.
    pub left: usize,
    /// All its cells.
    pub of: usize,
}

impl Measurement<'_> {
    /// Runs the cells that have no row yet.
    pub fn measure(&self, watch: &mut dyn RunProgress) -> Result<Measured> {
        let studies = planned(self.group, self.cells)?;
        let sizes: Vec<usize> = studies.iter().map(|(_, planned)| planned.len()).collect();
        kept::check(self.target, self.group, &["report.html"])?;
        let target = self.target.clone().make()?;
        let mut store = RowsFile::open(&target, self.resume)?;
        let cells = studies.iter().flat_map(|(_, planned)| planned);
        let earlier = match self.resume {
            true => {
                let builds = self.executor.builds(&mut cells.clone());
                kept::compare(&target, self.group).and(EarlierCells::read(&target, cells, self.cells, &builds))?
            }
            false => EarlierCells::default(),
        };
        kept::keep(&target, self.group)?;
        let mut planned_of: BTreeMap<Option<String>, u32> = BTreeMap::new();
        for ((study, _), size) in studies.iter().zip(&sizes) {
            *planned_of.entry(study.name.clone()).or_default() += *size as u32;
        }
        let unmeasured = |planned: Vec<Cell>| planned.into_iter().filter(|cell| !earlier.has(cell)).collect();
        let left: Vec<StudyCells> = studies.into_iter().map(|(study, planned)| (study, unmeasured(planned))).collect();
        watch.begins(&left);
        let mut failed = 0;
        let mut row = |watch: &mut dyn RunProgress, sample: &Sample| {
            let planned = planned_of.get(&sample.cell.study).copied();
            let sample = &Sample { planned, command: Some(self.command.clone()), ..sample.clone() };
            failed += usize::from(sample.error.is_some());
            store.append(&earlier.marked(sample))?;
            watch.row(sample);
            Ok(())
        };
        let ended = self.run_all(&left, &sizes, watch, &mut row);
        Ok(Measured { store, target, ended, failed })
    }

    /// Runs the studies one after the other, each under its own deadline and budget.
    fn run_all(
        &self,
        studies: &[StudyCells],
        sizes: &[usize],
        watch: &mut dyn RunProgress,
        row: &mut dyn FnMut(&mut dyn RunProgress, &Sample) -> Result<()>,
    ) -> Result<StudiesEnd> {
        let mut ended = StudiesEnd::default();
        for (at, (study, cells)) in studies.iter().enumerate() {
            // An interrupt ends all studies of the group.
            if let Some(left) = &mut ended.interrupted {
                *left += cells.len();
                continue;
            }
            let (executor, interrupted) = (self.executor, self.interrupted);
            let session = Session { executor, deadline: study.deadline, budget: study.budget, interrupted };
            watch.study(at);
            match session.run(cells, |sample| row(watch, sample))? {
                Ending::Finished => {}
                Ending::OutOfBudget(left) => {
                    ended.out_of_budget.push(OutOfBudget { study: study.name.clone(), left, of: sizes[at] });
                }
                Ending::Interrupted(left) => ended.interrupted = Some(left),
            }
        }
        Ok(ended)
    }
}

#[cfg(test)]
mod tests;
