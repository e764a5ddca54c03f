//! The message to a child process: what it must measure. In: a plan. Out: one JSON line.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Candidate;
use crate::job::Job;
use crate::program::Program;

/// One candidate x job x cores x repeat: the unit that a fresh process measures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Message", into = "Message")]
pub struct Cell {
    /// The name of its study. One file of rows may contain several studies.
    pub study: Option<String>,
    /// What is compared: `jemalloc:narenas=1`, and the variables of the user's environment that are passed on unchanged.
    pub candidate: Candidate,
    /// The allocator's name: `jemalloc`.
    pub allocator: String,
    /// The settings that must be in force, each in its canonical spelling, including those that emulate cores.
    pub settings: BTreeMap<String, String>,
    /// What the process does.
    pub job: Job,
    /// CPU cores of the emulated host; `None` to use this host as it is.
    pub cores: Option<u32>,
    /// The number of this repeat, from 0. Each repeat is a fresh process that measures the same.
    pub repeat: u32,
    /// Random seed for the workload's choices.
    pub seed: u64,
    /// The position of the cell in its round before the shuffle. Reports use it to list candidates and workloads in the
    /// order of the study, and to compare with the first.
    pub place: u32,
}

impl Cell {
    /// The first repeat of a candidate of this allocator, without settings.
    pub fn new(candidate: impl Into<Candidate>, allocator: &str, job: Job) -> Cell {
        Cell {
            study: None,
            candidate: candidate.into(),
            allocator: allocator.to_string(),
            settings: BTreeMap::new(),
            job,
            cores: None,
            repeat: 0,
            seed: 1,
            place: 0,
        }
    }

    /// A text that is equal for the same cell in a resumed study.
    pub fn identity(&self) -> String {
        // The place in the round changes when a candidate or a column is added, but it is still the same cell.
        serde_json::to_string(&Cell { place: 0, ..self.clone() }).expect("a cell has only texts and numbers")
    }

    /// The name of this cell within a study, for progress lines and errors.
    pub fn title(&self) -> String {
        let cores = self.cores.map_or(String::new(), |cores| format!(", {cores} cores"));
        format!("{}, {}{cores}, repeat {}", self.candidate, self.job.title(), self.repeat)
    }
}

/// A cell in the message. A program's job is written in the fields of a workload, with its title as the workload's
/// name.
#[derive(Serialize, Deserialize)]
struct Message {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    study: Option<String>,
    /// In the study's notation, followed by the variables.
    candidate: String,
    allocator: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    settings: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    inherited: BTreeMap<String, String>,
    /// The workload in the study's notation, or the name of the user's program.
    workload: String,
    /// 0 for the user's program.
    threads: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cores: Option<u32>,
    repeat: u32,
    seed: u64,
    place: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    program: Option<Box<Program>>,
}

impl From<Message> for Cell {
    fn from(message: Message) -> Cell {
        let Message { study, allocator, settings, workload, threads, .. } = message;
        let candidate = Candidate::read(&message.candidate, &message.inherited);
        let job = match message.program {
            Some(program) => Job::Program { title: workload, program },
            None => Job::workload(&workload, threads),
        };
        let Message { cores, repeat, seed, place, .. } = message;
        Cell { study, candidate, allocator, settings, job, cores, repeat, seed, place }
    }
}

impl From<Cell> for Message {
    fn from(cell: Cell) -> Message {
        let Cell { study, candidate, allocator, settings, job, cores, repeat, seed, place } = cell;
        let (workload, threads, program) = match job {
            Job::Workload { spec, threads } => (spec.to_string(), threads, None),
            Job::Program { title, program } => (title, 0, Some(program)),
        };
        Message {
            study,
            candidate: candidate.to_string(),
            allocator,
            settings,
            inherited: candidate.inherited,
            workload,
            threads,
            cores,
            repeat,
            seed,
            place,
            program,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Spec;

    #[test]
    fn a_cell_is_written_as_rows_have_always_said_it() {
        let ours = r#"{"candidate":"jemalloc:narenas=1","allocator":"jemalloc","settings":{"narenas":"1"},"workload":"server:live=16MiB","threads":4,"cores":40,"repeat":2,"seed":7,"place":3}"#;
        let program = r#"{"study":"run","candidate":"own","allocator":"own","workload":"my title","threads":0,"repeat":0,"seed":1,"place":0,"program":{"command":["x","y"]}}"#;
        let foreign = r#"{"candidate":"x","allocator":"x","workload":"no notation, of ours","threads":1,"repeat":0,"seed":1,"place":0}"#;
        let passed = r#"{"candidate":"jemalloc:narenas=1 MALLOC_CONF=tcache:false, x","allocator":"jemalloc","settings":{"narenas":"1"},"inherited":{"MALLOC_CONF":"tcache:false, x"},"workload":"server","threads":4,"repeat":0,"seed":1,"place":0}"#;
        for row in [ours, program, foreign, passed] {
            let cell: Cell = serde_json::from_str(row).unwrap();
            assert_eq!(serde_json::to_string(&cell).unwrap(), row);
        }
        let cell: Cell = serde_json::from_str(ours).unwrap();
        assert_eq!((cell.job.threads(), cell.job.program()), (Some(4), None));
        assert_eq!(cell.title(), "jemalloc:narenas=1, server:live=16MiB, 4 threads, 40 cores, repeat 2");
        let cell: Cell = serde_json::from_str(passed).unwrap();
        assert_eq!(cell.candidate.spec, Spec::parse("jemalloc:narenas=1").unwrap());
        let cell: Cell = serde_json::from_str(program).unwrap();
        assert_eq!((cell.job.threads(), cell.title().as_str()), (None, "own, my title, repeat 0"));
    }
}
