//! Cells of a workload, of a trace or of a program as a source of rows for a search. In: a stage and candidates. Out: their
//! rows. Each row is written to disk at once.
//!
//! Each stage is a separate study with its own name, because rows of races are never pooled with the rows that are
//! reported.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::search::whole::{FINAL, Measure, Rows, Searched};
use crate::session::{
    EarlierCells, Ending, Executor, Left, RowsFile, Session, Study, StudyFile, StudyFiles, other_file, plan,
};
use allocanary_measure::metrics::Metrics;
use allocanary_measure::rows;
use allocanary_measure::summary::{CellRepeats, Conditions, Findings, Fold, StudyNotes, differing};
use allocanary_rows::Candidate;
use allocanary_rows::Cell;
use allocanary_rows::description::Description;
use allocanary_rows::error::{Error, Result};
use allocanary_rows::sample::Sample;
use allocanary_rows::version::Version;

/// The job of a search.
pub struct SearchJob<'a> {
    /// What runs a cell.
    pub executor: &'a dyn Executor,
    /// The available cells.
    pub cells: Vec<Description>,
    /// The job: workload or program, threads, cores, seed. The search replaces its candidates.
    pub file: StudyFile,
    /// The time limit for the whole search; `None` means no limit.
    pub budget: Option<Duration>,
    /// Set by Ctrl-C.
    pub interrupted: &'a AtomicBool,
}

/// Receives the progress of a search.
pub trait SearchProgress {
    /// A stage begins with `candidates` candidates. The cells in `new` have no row yet.
    fn stage(&mut self, stage: &str, candidates: usize, new: &[Cell]);
    /// A row was written.
    fn row(&mut self, sample: &Sample);
    /// The stage has ended.
    fn ends(&mut self);
}

/// A source of rows.
pub struct Cells<'a> {
    job: SearchJob<'a>,
    /// The job as it is run. It has one candidate, which each stage replaces.
    study: Study,
    store: RowsFile,
    watch: &'a mut dyn SearchProgress,
    /// Every row so far, by its cell. They include those of an interrupted search.
    known: BTreeMap<String, Sample>,
    /// The rows of an interrupted search. Cells that failed are measured again.
    earlier: EarlierCells,
    /// How many runs failed in an interrupted search, by stage and candidate.
    failed: BTreeMap<(String, Candidate), usize>,
    /// The host and the versions of all rows that the search used so far.
    seen: Seen,
    /// The cells of the proof.
    proof: BTreeSet<String>,
    /// The time at which the budget is used up, by the executor's clock; `None` without a budget.
    ends: Option<Duration>,
}

/// The beginning of the names of stages in their rows.
const STAGE: &str = "tune-";

/// The name of a stage in its rows.
fn stage_name(stage: &str) -> String {
    format!("{STAGE}{stage}")
}

/// Whether this is the name of a stage. A user's own study may have the same beginning.
pub fn is_stage(name: &str) -> bool {
    let number = |stage: &str| stage.strip_prefix("race-").is_some_and(|number| number.parse::<u32>().is_ok());
    name.strip_prefix(STAGE).is_some_and(|stage| stage == FINAL || number(stage))
}

/// The seed of the proof. It differs from the seed of the races. So the fresh rows get other requests than those by which the
/// finalists were chosen.
pub fn fresh_seed(file: &StudyFile) -> u64 {
    file.seed.unwrap_or(1) + 1000
}

impl<'a> Cells<'a> {
    /// Reads the existing rows.
    pub fn new(
        job: SearchJob<'a>,
        target: &StudyFiles,
        store: RowsFile,
        watch: &'a mut dyn SearchProgress,
    ) -> Result<Cells<'a>> {
        let study = job.file.clone().check()?;
        let (mut known, mut failed, mut earlier) = (BTreeMap::new(), BTreeMap::new(), EarlierCells::default());
        let mut other = None;
        if let Some(path) = target.rows().filter(|path| path.exists()) {
            rows::read(&[path], |sample| {
                let build = &sample.provenance.build;
                let same = |cell: &Description| cell.build.package != build.package || cell.build.id == build.id;
                if !job.cells.iter().all(same) {
                    other = Some(build.id.clone());
                }
                earlier.add(&sample, sample.cell.identity());
                if sample.error.is_none() {
                    known.insert(sample.cell.identity(), sample);
                } else {
                    let stage = sample.cell.study.clone().unwrap_or_default();
                    *failed.entry((stage, sample.cell.candidate.clone())).or_default() += 1;
                }
                Ok(())
            })?;
        }
        if let Some(id) = other {
            let name = target.name();
            let text = format!("--resume: {name}: the rows there are of another build, {id}: name another --out-dir");
            return Err(Error::Input(text));
        }
        let builds = job.executor.builds(&mut known.values().map(|sample: &Sample| &sample.cell));
        if let Some(problem) = known.values().find_map(|sample| other_file(sample, &builds)) {
            return Err(Error::Input(format!("--resume: {}: {problem}", target.name())));
        }
        let ends = job.budget.map(|budget| job.executor.now().saturating_add(budget));
        let (seen, proof) = (Seen::default(), BTreeSet::new());
        Ok(Cells { job, study, store, watch, known, earlier, failed, seen, proof, ends })
    }

    /// The rows of the proof as findings, the present candidate first.
    pub fn findings(&self, found: &Searched, about: &StudyNotes) -> Result<Findings> {
        let mut fold = Fold::default();
        let place = |sample: &Sample| found.fresh.iter().position(|(name, _)| *name == sample.cell.candidate);
        for sample in self.proof.iter().filter_map(|identity| self.known.get(identity)) {
            if let Some(place) = place(sample) {
                let cell = Cell { place: place as u32, ..sample.cell.clone() };
                fold.add(&Sample { cell, planned: None, ..sample.clone() })?;
            }
        }
        Ok(Findings::of(fold, |_, _| about.clone()))
    }

    /// The cells of a stage.
    fn planned(&self, stage: &str, candidates: &[Candidate], repeats: u32) -> Result<Vec<Cell>> {
        let seed = if stage == FINAL { fresh_seed(&self.job.file) } else { self.study.seed };
        let (name, candidates) = (Some(stage_name(stage)), candidates.to_vec());
        let study = Study { name, candidates, repeats, seed, budget: None, ..self.study.clone() };
        plan(&study, &self.job.cells)
    }

    /// The file of rows, if its path no longer leads to that file.
    pub fn left(&self) -> Option<Left> {
        self.store.left()
    }
}

impl Measure for Cells<'_> {
    fn rows(&mut self, stage: &str, candidates: &[Candidate], repeats: u32) -> Result<Rows> {
        let cells = self.planned(stage, candidates, repeats)?;
        let new: Vec<Cell> = cells.iter().filter(|cell| !self.known.contains_key(&cell.identity())).cloned().collect();
        self.watch.stage(stage, candidates.len(), &new);
        let SearchJob { executor, interrupted, .. } = self.job;
        let session = Session { executor, deadline: self.study.deadline, budget: None, interrupted };
        let started = executor.now();
        let mut failures = BTreeMap::new();
        let (store, known, earlier, watch) = (&mut self.store, &mut self.known, &self.earlier, &mut *self.watch);
        let ran = session.run(&new, |sample| {
            if let Some(failure) = &sample.error {
                failures.insert(sample.cell.candidate.clone(), failure.text.clone());
            }
            store.append(&earlier.marked(sample))?;
            known.insert(sample.cell.identity(), sample.clone());
            watch.row(sample);
            Ok(())
        });
        self.watch.ends();
        if let Ending::Interrupted(_) = ran? {
            return Err(Error::Interrupted);
        }
        let measured: Vec<&Sample> = cells.iter().filter_map(|cell| self.known.get(&cell.identity())).collect();
        let seconds_each = match new.len() {
            // The rows of an interrupted search count as well: without their time the budget could not be estimated.
            0 => measured.iter().map(|sample| sample.wall_us as f64 / 1e6).sum::<f64>() / measured.len().max(1) as f64,
            new => (executor.now() - started).as_secs_f64() / new as f64,
        };
        let mut fold = Fold::knowing(&self.seen.metrics);
        measured.into_iter().try_for_each(|sample| fold.add(sample))?;
        let mut groups = self.seen.by_candidate(fold)?;
        for (candidate, group) in &mut groups {
            group.failed += self.failed.get(&(stage_name(stage), candidate.clone())).copied().unwrap_or(0);
        }
        if stage == FINAL {
            self.proof = cells.iter().map(Cell::identity).collect();
        }
        Ok(Rows { groups, failures, seconds_each: Some(seconds_each) })
    }

    fn seconds_left(&self) -> Option<f64> {
        Some(self.ends?.saturating_sub(self.job.executor.now()).as_secs_f64())
    }
}

/// Facts that all rows of a search must have in common. Their values differ if the machine was updated or the program was built again,
/// during a search or before it was resumed.
#[derive(Default)]
struct Seen {
    host: Option<Arc<Conditions>>,
    versions: BTreeMap<Candidate, Version>,
    metrics: Metrics,
}

impl Seen {
    /// The rows of each candidate. Rows of two kinds of hosts, or of two versions of an allocator or program, are refused.
    fn by_candidate(&mut self, mut fold: Fold) -> Result<BTreeMap<Candidate, CellRepeats>> {
        const INSTEAD: &str = "name another --out-dir, to begin anew";
        // A candidate that failed before it reported its version is counted under its version.
        fold.settle();
        let hosts: Vec<&Conditions> = self.host.iter().chain(&fold.hosts).map(|host| &**host).collect();
        if hosts.iter().any(|host| *host != hosts[0]) {
            let differ = differing(&hosts).join("; ");
            return Err(Error::Input(format!(
                "the rows of this search are of two kinds of hosts: {differ}: {INSTEAD}"
            )));
        }
        self.metrics.clone_from(&fold.metrics);
        self.host = self.host.take().or_else(|| fold.hosts.first().cloned());
        let mut all: BTreeMap<Candidate, CellRepeats> = BTreeMap::new();
        for (key, group) in fold.groups {
            let is_measured = !group.values.is_empty();
            let version = self.versions.get(&key.candidate).filter(|_| is_measured);
            if let Some(version) = version.filter(|version| **version != key.version) {
                let text = format!("{} was {version}, and is {} now: {INSTEAD}", key.candidate, key.version);
                return Err(Error::Input(text));
            }
            if is_measured {
                self.versions.insert(key.candidate.clone(), key.version);
            }
            join(all.entry(key.candidate).or_default(), group);
        }
        Ok(all)
    }
}

/// Adds the rows of one group to another.
fn join(all: &mut CellRepeats, group: CellRepeats) {
    group.values.into_iter().for_each(|(metric, new)| all.values.entry(metric).or_default().extend(new));
    all.failed += group.failed;
    all.anatomies.extend(group.anatomies);
    if !group.environment.is_empty() {
        all.environment = group.environment;
    }
}

#[cfg(test)]
mod tests;
