//! Cells of a workload, of a trace or of a program as a source of rows for a search. In: a stage and candidates. Out: their rows, each on disk as soon as it exists.
//!
//! Each stage is a study of its own name: racing rows are never pooled with those that are reported.

use std::collections::BTreeMap;
use std::time::Instant;

use super::super::measure::watch_interrupts;
use super::super::progress::{Progress, Stretch};
use super::super::terminal;
use super::about;
use super::subject::Subject;
use allocanary_cell::Cell;
use allocanary_cell::description::Description;
use allocanary_cell::sample::Sample;
use allocanary_search::Searched;
use allocanary_search::search::{FINAL, Measure, Rows};
use allocanary_study::error::{Error, Result};
use allocanary_study::rows;
use allocanary_study::run::program::Launcher;
use allocanary_study::run::{Ending, Roster, Runner, Store, Target};
use allocanary_study::summary::{Findings, Fold};
use allocanary_study::{StudyFile, plan};

/// A source of rows.
pub struct Cells<'a> {
    roster: &'a Roster,
    /// What starts the user's program.
    launcher: Option<&'a Launcher>,
    descriptions: Vec<Description>,
    /// The job: workload or program, threads, cores, seed.
    file: StudyFile,
    store: Store,
    /// Every row so far, by its cell: those of an interrupted search too.
    known: BTreeMap<String, Sample>,
    ends: Instant,
    /// Whether the user interrupted it.
    pub interrupted: bool,
}

/// The name of a stage in its rows.
pub fn stage_name(stage: &str) -> String {
    format!("tune-{stage}")
}

impl<'a> Cells<'a> {
    /// Reads the rows that are there already.
    pub fn new(subject: &'a Subject, target: &Target, store: Store, ends: Instant) -> Result<Cells<'a>> {
        watch_interrupts();
        let roster = &subject.roster;
        let launcher = subject.started.as_ref().map(|started| &started.launcher);
        let file = subject.file.clone();
        let descriptions = roster.descriptions();
        let mut known = BTreeMap::new();
        let mut other = None;
        if let Some(path) = target.rows().filter(|path| path.exists()) {
            rows::read(&[path], |sample| {
                let build = &sample.provenance.build;
                let same = |cell: &Description| cell.build.package != build.package || cell.build.id == build.id;
                if !descriptions.iter().all(same) {
                    other = Some(build.id.clone());
                }
                if sample.error.is_none() {
                    known.insert(sample.cell.identity(), sample);
                }
            })?;
        }
        if let Some(id) = other {
            let name = target.name();
            let text = format!("--resume: {name}: the rows there are of another build, {id}: name another --out");
            return Err(Error::Input(text));
        }
        Ok(Cells { roster, launcher, descriptions, file, store, known, ends, interrupted: false })
    }

    /// Prints a line about the search.
    pub fn say(&self, line: &str) {
        terminal::tell(line);
    }

    /// The fresh rows as findings, the present candidate first.
    pub fn findings(&self, found: &Searched) -> Findings {
        let mut fold = Fold::default();
        let name = stage_name(FINAL);
        let place = |sample: &Sample| found.fresh.iter().position(|(name, _)| *name == sample.cell.candidate);
        for sample in self.known.values().filter(|sample| sample.cell.study.as_ref() == Some(&name)) {
            if let Some(place) = place(sample) {
                let cell = Cell { place: place as u32, ..sample.cell.clone() };
                fold.add(&Sample { cell, planned: None, ..sample.clone() });
            }
        }
        Findings::of(fold, about)
    }

    /// The cells of a stage.
    fn planned(&self, stage: &str, candidates: &[String], repeats: u32) -> Result<Vec<Cell>> {
        // Fresh rows get other requests than those by which the finalists were chosen.
        let seed = self.file.seed.unwrap_or(1) + if stage == FINAL { 1000 } else { 0 };
        let study = StudyFile {
            name: Some(stage_name(stage)),
            candidates: Some(candidates.to_vec()),
            repeats: Some(repeats),
            seed: Some(seed),
            budget: None,
            ..self.file.clone()
        };
        plan(&study.check()?, &self.descriptions)
    }
}

impl Measure for Cells<'_> {
    fn rows(&mut self, stage: &str, candidates: &[String], repeats: u32) -> Result<Rows> {
        let cells = self.planned(stage, candidates, repeats)?;
        let new: Vec<Cell> = cells.iter().filter(|cell| !self.known.contains_key(&cell.identity())).cloned().collect();
        let stretch = Stretch::new(&new, &self.descriptions, None);
        let progress = Progress::new(vec![stretch]);
        progress.say(&format!("{stage}: {} candidates, {} new rows", candidates.len(), new.len()));
        progress.begin(0);
        let deadline = self.file.clone().check()?.deadline;
        let interrupted = watch_interrupts();
        let runner = Runner { roster: self.roster, deadline, budget: None, launcher: self.launcher, interrupted };
        let started = Instant::now();
        let mut failures = BTreeMap::new();
        let (store, known) = (&mut self.store, &mut self.known);
        let ran = runner.run(&new, |sample| {
            if let Some(failure) = &sample.error {
                failures.insert(sample.cell.candidate.clone(), failure.text.clone());
            }
            store.append(sample)?;
            known.insert(sample.cell.identity(), sample.clone());
            progress.done(&sample.cell.candidate);
            Ok(())
        });
        progress.end();
        if let Ending::Interrupted(_) = ran? {
            self.interrupted = true;
            return Err(Error::Input("interrupted".into()));
        }
        let seconds_each = (!new.is_empty()).then(|| started.elapsed().as_secs_f64() / new.len() as f64);
        let mut fold = Fold::default();
        cells.iter().filter_map(|cell| self.known.get(&cell.identity())).for_each(|sample| fold.add(sample));
        let groups = fold.groups.into_iter().map(|(key, group)| (key.candidate, group));
        let mut by_candidate = BTreeMap::new();
        for (candidate, group) in groups {
            // A candidate that failed before it said its version has a group of its own.
            let known = by_candidate.entry(candidate).or_insert_with(Default::default);
            join(known, group);
        }
        Ok(Rows { groups: by_candidate, failures, seconds_each })
    }

    fn seconds_left(&self) -> Option<f64> {
        Some(self.ends.saturating_duration_since(Instant::now()).as_secs_f64())
    }
}

/// Adds the rows of one group to another.
fn join(all: &mut allocanary_study::summary::Group, group: allocanary_study::summary::Group) {
    // Metrics that users named may be missing at the end.
    all.values.resize(all.values.len().max(group.values.len()), Vec::new());
    all.values.iter_mut().zip(group.values).for_each(|(all, new)| all.extend(new));
    all.failed += group.failed;
    all.anatomies.extend(group.anatomies);
    if !group.environment.is_empty() {
        all.environment = group.environment;
    }
}
