//! Cells with one allocator linked. In: a cell. Out: its row: the child's answer, or the failure.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::executor::{CellOutcome, Executor, Ran, row};
use crate::program::cause::{cause, killed_for_memory};
use crate::session::Roster;
use crate::session::child::{ChildCommand, ChildEnd, run_child};
use crate::session::roster::bare_environment;
use allocanary_rows::Cell;
use allocanary_rows::job::Job;
use allocanary_rows::provenance::{Build, Provenance};
use allocanary_rows::sample::{Failure, FailureKind, SCHEMA, Sample};
use allocanary_sys::sys;
use allocanary_trace::prepare;

/// Runs the cells of a roster.
pub struct Linked<'a> {
    roster: &'a Roster,
    provenance: Provenance,
}

impl<'a> Linked<'a> {
    /// The available cells.
    pub fn new(roster: &'a Roster) -> Self {
        Linked { roster, provenance: Provenance::here() }
    }
}

impl Executor for Linked<'_> {
    fn run(&self, cell: &Cell, deadline: Duration, stop: &AtomicBool) -> CellOutcome {
        row(cell, &self.provenance, stop, || {
            let kills_before = sys::memory_kills();
            let (sample, wall) = match self.start(cell, deadline, stop) {
                Err(failure) => (Err(failure), Duration::ZERO),
                Ok(ended) => {
                    let killed = kills_before != sys::memory_kills();
                    (answer(&ended, cell, deadline, killed), ended.wall)
                }
            };
            Ran { sample, wall, builds: BTreeMap::new() }
        })
    }
}

impl Linked<'_> {
    fn start(&self, cell: &Cell, deadline: Duration, stop: &AtomicBool) -> Result<ChildEnd, Failure> {
        let failure = |text: String| Failure { kind: FailureKind::Start, text };
        let Job::Workload { spec, .. } = &cell.job else {
            return Err(failure(format!("there is no cell for the program {}", cell.job.name())));
        };
        let Some((description, program)) = self.roster.get(&cell.allocator, Some(&spec.name)) else {
            return Err(failure(format!("there is no cell for {} with {}", spec.name, cell.allocator)));
        };
        let mut environment: BTreeMap<String, String> = bare_environment();
        if cell.job.is_replay() {
            // The cell must look for a prepared trace, or make it, where the command does. So it gets these variables.
            let value = |name: &str| std::env::var(name).ok().map(|value| (name.to_string(), value));
            environment.extend(prepare::VARIABLES.into_iter().filter_map(value));
        }
        environment.extend(cell.candidate.inherited.clone());
        description.environment.add_to(&mut environment, &cell.settings);
        let environment: Vec<(String, String)> = environment.into_iter().collect();
        let input = serde_json::to_vec(cell).expect("a cell has only texts and numbers");
        let child = ChildCommand { program, verb: "run", input: &input, environment: &environment, deadline };
        run_child(&child, stop)
            .map_err(|error| failure(format!("{} could not be started: {}", program.display(), cause(&error, program))))
    }
}

/// The answer of a child that has ended, or its failure.
fn answer(ended: &ChildEnd, cell: &Cell, deadline: Duration, for_memory: bool) -> Result<Sample, Failure> {
    let fail = |kind, text: String| Err(Failure { kind, text });
    let because = if ended.complaint.is_empty() { String::new() } else { format!(": {}", ended.complaint) };
    let Some(status) = ended.status else {
        let seconds = deadline.as_secs_f64();
        return fail(FailureKind::Late, format!("killed at its deadline of {seconds} s (--run-timeout){because}"));
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
fn check(sample: &Sample, cell: &Cell) -> Result<(), Failure> {
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
    match &sample.measured {
        None if sample.error.is_none() => lie("the answer holds neither readings nor an error"),
        Some(answer) if answer.requested_bytes.len() != answer.moments.len() => {
            lie("requested_bytes and moments differ in length")
        }
        Some(answer) if answer.readings.values().any(|column| column.len() != answer.moments.len()) => {
            lie("a reading and moments differ in length")
        }
        _ => Ok(()),
    }
}
