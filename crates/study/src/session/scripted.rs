//! Answers in place of processes, for tests of what is done with the answers. In: for each cell an answer, a failure, or a stop. Out: rows.
//! No process is started, and the clock adds up the times in the answers.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::executor::{CellOutcome, Executor};
use allocanary_facts::environment::Environment;
use allocanary_rows::Cell;
use allocanary_rows::description::{Description, WorkloadDescription};
use allocanary_rows::provenance::{Build, Provenance};
use allocanary_rows::sample::{Failure, Measured, Sample};
use allocanary_sys::host::Host;

/// What a cell of the script does.
#[derive(Clone, Debug)]
pub enum ScriptStep {
    /// It answers after this time.
    Answers(Box<Measured>, Duration),
    /// It fails after this time.
    Fails(Failure, Duration),
    /// The user interrupts the session while it runs.
    Interrupts,
}

/// What each cell does.
type Script<'a> = Box<dyn FnMut(&Cell) -> ScriptStep + 'a>;

/// A script, and every cell that was run.
pub struct Scripted<'a> {
    line: RefCell<Script<'a>>,
    ran: RefCell<Vec<Cell>>,
    now: std::cell::Cell<Duration>,
}

impl<'a> Scripted<'a> {
    /// A script that has a line for every cell.
    pub fn by(line: impl FnMut(&Cell) -> ScriptStep + 'a) -> Self {
        Scripted { line: RefCell::new(Box::new(line)), ran: RefCell::default(), now: std::cell::Cell::default() }
    }

    /// The lines in the order in which cells are run. A cell beyond the last one is a mistake of the test, and panics.
    pub fn new(lines: impl IntoIterator<Item = ScriptStep, IntoIter: 'a>) -> Self {
        let mut lines = lines.into_iter();
        Scripted::by(move |_| lines.next().expect("the script has a line for each cell"))
    }

    /// The same script with a clock that begins at this time, for a session after another one.
    pub fn beginning_at(self, now: Duration) -> Self {
        self.now.set(now);
        self
    }

    /// The descriptions of linked cells, one for each of these allocators: version 5, no settings, these workloads.
    pub fn described(allocators: &[&str], workloads: &[WorkloadDescription]) -> Vec<Description> {
        let cell = |allocator: &&str| Description {
            protocol: 1,
            build: Build::this(),
            allocator: allocator.to_string(),
            version: "5".into(),
            settings: Vec::new(),
            effective: Default::default(),
            problems: Vec::new(),
            environment: Environment::Each { prefix: "X_".into() },
            per_core: None,
            workloads: workloads.to_vec(),
        };
        allocators.iter().map(cell).collect()
    }

    /// The cells that were run, in order.
    pub fn ran(&self) -> Vec<Cell> {
        self.ran.borrow().clone()
    }
}

impl Executor for Scripted<'_> {
    fn run(&self, cell: &Cell, _deadline: Duration, stop: &AtomicBool) -> CellOutcome {
        self.ran.borrow_mut().push(cell.clone());
        let provenance = provenance();
        let line = (self.line.borrow_mut())(cell);
        let started_ms = 1 + self.now.get().as_millis() as u64;
        let (sample, wall) = match line {
            ScriptStep::Interrupts => {
                stop.store(true, Ordering::Relaxed);
                return CellOutcome::Stopped;
            }
            ScriptStep::Answers(answer, wall) => {
                (Sample { measured: Some(*answer), ..Sample::empty(cell, &provenance) }, wall)
            }
            ScriptStep::Fails(failure, wall) => {
                (Sample { error: Some(failure), ..Sample::empty(cell, &provenance) }, wall)
            }
        };
        self.now.set(self.now.get() + wall);
        CellOutcome::Row(Box::new(Sample { wall_us: wall.as_micros() as u64, started_ms, ..sample }))
    }

    fn now(&self) -> Duration {
        self.now.get()
    }
}

/// The same on every machine.
fn provenance() -> Provenance {
    let host = Host {
        name: "scripted".into(),
        kernel: "6.1.0".into(),
        cpu: "a processor".into(),
        cores: 2,
        affinity: 2,
        parallelism: 2,
        memory_bytes: 1 << 34,
        page_bytes: 4096,
        thp: "madvise".into(),
    };
    Provenance { build: Build::this(), host }
}
