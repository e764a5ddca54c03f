//! Runs a plan. In: cells in order. Out: one sample for each, even if its child fails, passed on as soon as it exists.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::cause::{cause, killed_for_memory};
use super::child::{Child, Ended, run_child};
use super::program::Launcher;
use super::roster::{Roster, bare_environment};
use crate::error::Result;
use allocanary_cell::Cell;
use allocanary_cell::load::Load;
use allocanary_cell::provenance::{Build, Provenance};
use allocanary_cell::sample::{Failure, FailureKind, SCHEMA, Sample};
use allocanary_cell::spec::Spec;
use allocanary_kernel::sys;

/// Runs cells.
pub struct Runner<'a> {
    /// The available cells.
    pub roster: &'a Roster,
    /// The time after which a cell is killed.
    pub deadline: Duration,
    /// No round starts that would end later than this, counted from the start of the first cell. The first round always
    /// runs to its end, because a part of a round has not measured all candidates.
    pub budget: Option<Duration>,
    /// What starts the user's program; `None` for studies of our own workloads.
    pub launcher: Option<&'a Launcher>,
    /// Set by Ctrl-C: the running cell is killed and no other starts.
    pub interrupted: &'a AtomicBool,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// All cells have a row.
    Finished,
    /// The budget was used up; the number of cells that were not run.
    OutOfBudget(usize),
    /// The user stopped it; the number of cells that were not run.
    Interrupted(usize),
}

impl Runner<'_> {
    /// Runs `cells` one after the other. `row` receives each sample. An error of `row`, such as a full disk, ends the
    /// run.
    pub fn run(&self, cells: &[Cell], mut row: impl FnMut(&Sample) -> Result<()>) -> Result<Ending> {
        let started = Instant::now();
        let (mut round, mut longest) = (started, Duration::ZERO);
        let provenance = Provenance::here();
        for (done, cell) in cells.iter().enumerate() {
            if done > 0 && cells[done - 1].repeat != cell.repeat {
                longest = longest.max(round.elapsed());
                round = Instant::now();
                if self.budget.is_some_and(|budget| started.elapsed() + longest > budget) {
                    return Ok(Ending::OutOfBudget(cells.len() - done));
                }
            }
            let sample = self.sample(cell, &provenance);
            // A cell that we killed ourselves gets no row, not even a failed one: --resume runs it again.
            if self.interrupted.load(Ordering::Relaxed) {
                return Ok(Ending::Interrupted(cells.len() - done));
            }
            row(&sample)?;
        }
        Ok(Ending::Finished)
    }

    /// One cell's sample: the child's answer, or the failure.
    fn sample(&self, cell: &Cell, provenance: &Provenance) -> Sample {
        let started_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
        let load = Load::now();
        let mut builds = BTreeMap::new();
        let (sample, wall) = match self.launcher.filter(|_| cell.program.is_some()) {
            Some(launcher) => {
                // Of each cell anew: the program may be built again while its study runs.
                builds = launcher.builds(std::iter::once(cell));
                let (answer, wall) = launcher.run(cell, self.deadline, self.interrupted);
                let row = |answer| Sample { answer: Some(answer), ..empty(cell, provenance) };
                (answer.map(row), wall)
            }
            None => {
                let kills_before = sys::memory_kills();
                match self.start(cell) {
                    Err(failure) => (Err(failure), Duration::ZERO),
                    Ok(ended) => {
                        let killed = kills_before != sys::memory_kills();
                        (answer(&ended, cell, self.deadline, killed), ended.wall)
                    }
                }
            }
        };
        let mut sample = sample.unwrap_or_else(|failure| Sample { error: Some(failure), ..empty(cell, provenance) });
        sample.wall_us = wall.as_micros() as u64;
        sample.started_ms = started_ms;
        sample.builds = builds;
        sample.load = Some(load.until_now());
        sample
    }

    fn start(&self, cell: &Cell) -> std::result::Result<Ended, Failure> {
        let failure = |text: String| Failure { kind: FailureKind::Start, text };
        let workload = Spec::parse(&cell.workload).map(|spec| spec.name).unwrap_or_default();
        let Some((description, program)) = self.roster.get(&cell.allocator, Some(&workload)) else {
            return Err(failure(format!("there is no cell for {workload} with {}", cell.allocator)));
        };
        let mut environment: BTreeMap<String, String> = bare_environment();
        environment.extend(cell.inherited.clone());
        description.environment.add_to(&mut environment, &cell.settings);
        let environment: Vec<(String, String)> = environment.into_iter().collect();
        let input = serde_json::to_vec(cell).expect("a cell has only texts and numbers");
        let child = Child { program, verb: "run", input: &input, environment: &environment, deadline: self.deadline };
        run_child(&child, self.interrupted)
            .map_err(|error| failure(format!("{} could not be started: {}", program.display(), cause(&error, program))))
    }
}

/// A row without figures.
fn empty(cell: &Cell, provenance: &Provenance) -> Sample {
    Sample {
        schema: SCHEMA,
        cell: cell.clone(),
        answer: None,
        error: None,
        wall_us: 0,
        started_ms: 0,
        replaces: None,
        began_on: None,
        builds: BTreeMap::new(),
        provenance: provenance.clone(),
        load: None,
        planned: None,
        command: None,
    }
}

/// The answer of a child that has ended, or its failure.
fn answer(ended: &Ended, cell: &Cell, deadline: Duration, for_memory: bool) -> std::result::Result<Sample, Failure> {
    let fail = |kind, text: String| Err(Failure { kind, text });
    let because = if ended.complaint.is_empty() { String::new() } else { format!(": {}", ended.complaint) };
    let Some(status) = ended.status else {
        let seconds = deadline.as_secs_f64();
        return fail(FailureKind::Late, format!("killed at its deadline of {seconds} s (--deadline){because}"));
    };
    if let Some(signal) = status.signal() {
        if signal == libc::SIGKILL && for_memory {
            return fail(FailureKind::OutOfMemory, killed_for_memory(sys::memory_limit()));
        }
        return fail(FailureKind::Crashed, format!("killed by signal {signal}{because}"));
    }
    if !status.success() {
        return fail(FailureKind::Crashed, format!("ended with exit code {}{because}", status.code().unwrap_or(-1)));
    }
    if ended.output.trim_ascii().is_empty() {
        return fail(FailureKind::Silent, format!("ended with exit code 0 and no answer{because}"));
    }
    let sample: Sample = match serde_json::from_slice(&ended.output) {
        Ok(sample) => sample,
        Err(error) => {
            let text = String::from_utf8_lossy(&ended.output[..ended.output.len().min(80)]).into_owned();
            return fail(FailureKind::Garbage, format!("the answer is not a sample ({error}): {text:?}"));
        }
    };
    check(&sample, cell)?;
    Ok(sample)
}

/// Checks that a sample answers this cell, and comes from an accepted build.
fn check(sample: &Sample, cell: &Cell) -> std::result::Result<(), Failure> {
    let build = &sample.provenance.build;
    let this = Build::this();
    if build.package == this.package && build.id != this.id {
        let text = format!("the cell was replaced during the study: wanted build {}, found {}", this.id, build.id);
        return Err(Failure { kind: FailureKind::Foreign, text });
    }
    let lie = |text: &str| Err(Failure { kind: FailureKind::Garbage, text: text.to_string() });
    if sample.schema != SCHEMA {
        return lie("the answer is of another schema");
    }
    if sample.cell != *cell {
        return lie("the answer is for another cell than the one asked for");
    }
    match &sample.answer {
        None if sample.error.is_none() => lie("the answer holds neither readings nor an error"),
        Some(answer) if answer.live_bytes.len() != answer.phases.len() => lie("live_bytes and phases differ in length"),
        Some(answer) if answer.readings.values().any(|column| column.len() != answer.phases.len()) => {
            lie("a reading and phases differ in length")
        }
        _ => Ok(()),
    }
}
