//! What a cell does. In: a message. Out: a workload of ours, or the user's program.

use crate::Spec;
use crate::program::Program;

/// What a cell does.
#[derive(Clone, Debug, PartialEq)]
pub enum Job {
    /// A workload of ours. The replay of a trace is one: `replay`, with the trace as a parameter.
    Workload {
        /// Its name and parameters in the study's notation: `server:live=16MiB`.
        spec: Spec,
        /// Worker threads.
        threads: u32,
    },
    /// The user's program. It starts as many threads as it wants.
    Program {
        /// Its name in rows and reports.
        title: String,
        /// How to run it.
        program: Box<Program>,
    },
}

impl Job {
    /// The workload of this notation. A text that is not in our notation counts as a name, so that rows of other programs can be shown.
    pub fn workload(text: &str, threads: u32) -> Job {
        Job::Workload { spec: Spec::parse(text).unwrap_or_else(|_| Spec::named(text)), threads }
    }

    /// The user's program.
    pub fn of_program(program: Program) -> Job {
        Job::Program { title: program.title(), program: Box::new(program) }
    }

    /// The name of a workload with its parameters, or of a program.
    pub fn name(&self) -> String {
        match self {
            Job::Workload { spec, .. } => spec.to_string(),
            Job::Program { title, .. } => title.clone(),
        }
    }

    /// Its name and its threads: `server, 4 threads`. The title of a replay has no threads, because they are those of the program.
    pub fn title(&self) -> String {
        match self.threads().filter(|_| !self.is_replay()) {
            None => self.name(),
            Some(1) => format!("{}, 1 thread", self.name()),
            Some(threads) => format!("{}, {threads} threads", self.name()),
        }
    }

    /// The number of worker threads; `None` if the program decides it.
    pub fn threads(&self) -> Option<u32> {
        match self {
            Job::Workload { threads, .. } => Some(*threads),
            Job::Program { .. } => None,
        }
    }

    /// The user's program, if the job is one.
    pub fn program(&self) -> Option<&Program> {
        match self {
            Job::Workload { .. } => None,
            Job::Program { program, .. } => Some(program),
        }
    }

    /// Whether it replays a trace.
    pub fn is_replay(&self) -> bool {
        matches!(self, Job::Workload { spec, .. } if spec.settings.contains_key("trace"))
    }
}
