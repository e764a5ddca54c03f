//! The child's side. In: a verb, and a cell on standard input. Out: one line of JSON on standard output.
//!
//! `describe` prints the cell's description. `run` measures the cell on standard input and answers with a sample. Any
//! executable that implements these two verbs can be studied.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::process::ExitCode;
use std::time::Instant;

use crate::meter::Meter;
use crate::meters::{self, LatencyMeter};
use crate::workload::{MOST_MARKS, Moment, Outcome, Setup, Workload, WorkloadStage};
use crate::workloads;
use allocanary::Allocator;
use allocanary::expected;
use allocanary_rows::Cell;
use allocanary_rows::description::Description;
use allocanary_rows::job::Job;
use allocanary_rows::provenance::{self, Build, BuildFacts, Provenance};
use allocanary_rows::sample::{Failure, FailureKind, Measured, SCHEMA, Sample};
use allocanary_sys::sys;

/// The main function of a cell. The caller has declared the global allocator, and passes its description.
///
/// First it reads this process's sizes from the kernel, so that `start` contains only the memory of the allocator and
/// the loader. So this function is inlined into the cell's `main`, and the text is parsed later. Each stretch of code
/// or constants that is touched before this reading adds 64 KiB of resident memory, because the kernel maps the pages
/// around a fault.
#[inline]
pub fn main(allocator: &dyn Allocator, built: fn() -> BuildFacts) -> ExitCode {
    main_of(&Worker { allocator, workloads: workloads::ALL, build: Build::this, built })
}

/// The main function of another package's cell, with that package's workloads.
#[inline]
pub fn main_of(worker: &Worker) -> ExitCode {
    let mut status = [0; 4096];
    let length = sys::read_once(c"/proc/self/status", &mut status);
    serve(worker, &status[..length])
}

/// The parts of a cell.
pub struct Worker<'a> {
    /// The allocator that is linked into the cell.
    pub allocator: &'a dyn Allocator,
    /// The workloads that it can run.
    pub workloads: &'static [&'static Workload],
    /// Its build.
    pub build: fn() -> Build,
    /// The facts about its build.
    pub built: fn() -> BuildFacts,
}

/// Answers the verb. `status` is the content of `/proc/self/status` at the start.
pub fn serve(worker: &Worker, status: &[u8]) -> ExitCode {
    let allocator = worker.allocator;
    let mut board = Board::new(allocator);
    board.mark(Moment::Start, 0);
    meters::status::parse(status, &mut board.readings[0]);
    let started = Instant::now();
    provenance::built_from((worker.built)());
    let line = match std::env::args_os().nth(1).as_deref().and_then(std::ffi::OsStr::to_str) {
        Some("describe") => serde_json::to_string(&describe(worker)),
        Some("run") => {
            sys::die_with_parent();
            end_on_panic();
            let cell = match read_cell() {
                Ok(cell) => cell,
                Err(problem) => return refuse(&problem),
            };
            let mut sample = run(worker, board, cell);
            if let Some(answer) = &mut sample.measured {
                answer.worker_us = started.elapsed().as_micros() as u64;
            }
            serde_json::to_string(&sample)
        }
        _ => {
            let name = allocator.name();
            return refuse(&format!("cell-{name} is run by allocanary; its verbs are `describe` and `run`"));
        }
    };
    let mut stdout = std::io::stdout().lock();
    match line.map_err(std::io::Error::from).and_then(|line| writeln!(stdout, "{line}")) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => refuse(&format!("could not write the answer: {error}")),
    }
}

fn refuse(problem: &str) -> ExitCode {
    eprintln!("{problem}");
    ExitCode::from(2)
}

/// Ends the process on a panic, because the other threads would wait at their gate for ever. The panic's text goes to
/// standard error as usual. The parent makes an error row from the text and the exit code.
fn end_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::exit(101);
    }));
}

fn read_cell() -> Result<Cell, String> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).map_err(|error| format!("standard input: {error}"))?;
    serde_json::from_str(&text).map_err(|error| format!("the cell on standard input: {error}"))
}

/// Describes this cell, in the environment in which it was started.
fn describe(worker: &Worker) -> Description {
    let allocator = worker.allocator;
    let said = expected::of_environment(allocator);
    Description {
        protocol: SCHEMA,
        build: (worker.build)(),
        allocator: allocator.name().into(),
        version: allocator.version(),
        settings: allocator.settings().to_vec(),
        effective: allocator.effective(&BTreeMap::new()),
        problems: said.unmet(&allocator.effective(&said.settings)),
        environment: allocator.environment(),
        per_core: allocator.per_core(),
        workloads: worker.workloads.iter().map(|workload| workload.description()).collect(),
    }
}

/// Runs the cell. A failure becomes the sample's error.
fn run(worker: &Worker, mut board: Board, cell: Cell) -> Sample {
    let mut sample = Sample {
        schema: SCHEMA,
        cell,
        measured: None,
        error: None,
        wall_us: 0,
        started_ms: 0,
        replaces: None,
        began_on: None,
        builds: BTreeMap::new(),
        provenance: Provenance { build: (worker.build)(), ..Provenance::here() },
        load: None,
        planned: None,
        command: None,
    };
    let latency = LatencyMeter::new();
    let outcome =
        prepare(worker, &sample.cell, &latency).and_then(|(workload, setup)| (workload.run)(&setup, &mut board));
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(text) => {
            sample.error = Some(Failure { kind: FailureKind::Refused, text });
            return sample;
        }
    };
    let allocator = board.allocator;
    let mut found = settings_found(allocator, &sample.cell.settings);
    sample.error = mismatch(&sample.cell.settings, &found, board.most_arenas());
    if !sample.cell.candidate.inherited.is_empty() {
        // The settings of the user's variables must be in force too, not only those of the study. The cell's own
        // settings are also in the environment, and come last.
        let said = expected::of_environment(allocator);
        found.extend(settings_found(allocator, &said.settings));
        let unmet = said.unmet(&found).into_iter().next();
        let failure = |text| Failure { kind: FailureKind::Setting, text };
        sample.error = sample.error.or(unmet.map(failure));
        sample.error = sample.error.or(mismatch(&said.settings, &found, board.most_arenas()));
    }
    let unproven = allocator.unproven(&found);
    sample.measured = Some(Measured { unproven, ..board.answer(&outcome, &latency, allocator.version(), found) });
    sample
}

/// The workload that the cell names, and its input.
fn prepare<'a>(
    worker: &Worker<'a>,
    cell: &Cell,
    latency: &'a LatencyMeter,
) -> Result<(&'static Workload, Setup<'a>), String> {
    let Job::Workload { spec, threads } = &cell.job else {
        return Err(format!("{}: wanted a workload of this cell, found a program", cell.job.name()));
    };
    let workload = worker.workloads.iter().find(|workload| workload.name == spec.name);
    let workload = workload.ok_or_else(|| format!("this cell has no workload `{}`", spec.name))?;
    let parameters = workload.description().parameters_of(spec)?;
    if *threads == 0 {
        return Err("threads: wanted 1 or more, found 0".into());
    }
    let (threads, allocator) = (*threads as usize, worker.allocator);
    let small_block = allocator.small_block();
    Ok((workload, Setup { threads, seed: cell.seed, parameters, timer: latency, small_block, allocator }))
}

/// The values in force of the requested settings.
fn settings_found(allocator: &dyn Allocator, wanted: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    if wanted.is_empty() {
        return BTreeMap::new();
    }
    let mut found = allocator.effective(wanted);
    found.retain(|name, _| wanted.contains_key(name));
    found
}

/// The first setting that is not in force, as an error with the requested and the found value.
fn mismatch(
    wanted: &BTreeMap<String, String>,
    found: &BTreeMap<String, String>,
    most_arenas: Option<u64>,
) -> Option<Failure> {
    let text = wanted.iter().find_map(|(name, wanted)| match found.get(name) {
        None => Some(format!("{name}: wanted {wanted}, and the allocator does not say what it took")),
        Some(found) if found != wanted => {
            Some(format!("{name}: wanted {wanted}, found {found}: the allocator refused, clipped or ignored it"))
        }
        Some(_) => None,
    });
    // glibc's loader reports the tunable that it read. Only the number of arenas shows whether malloc obeyed.
    let cap = wanted.get("arena_max").and_then(|most| most.parse::<u64>().ok());
    let broken = cap.zip(most_arenas).filter(|(cap, made)| made > cap);
    let text = text.or_else(|| broken.map(|(cap, made)| format!("arena_max: wanted {cap}, found {made} arenas")));
    text.map(|text| Failure { kind: FailureKind::Setting, text })
}

/// Stores the readings of all moments, in memory that is allocated at the start.
struct Board<'a> {
    allocator: &'a dyn Allocator,
    moments: [Option<(Moment, u64)>; MOST_MARKS],
    marks: usize,
    readings: [[Option<u64>; meters::COLUMNS]; MOST_MARKS],
    notes: BTreeMap<String, u64>,
}

impl WorkloadStage for Board<'_> {
    fn mark(&mut self, moment: Moment, live_bytes: u64) {
        if moment == Moment::Purged {
            let _ = self.allocator.purge(); // if nothing can be purged, the readings show the memory as it is
        }
        assert!(self.marks < self.moments.len(), "the workload made more than {MOST_MARKS} marks");
        let mut slots = &mut self.readings[self.marks][..];
        for meter in meters::ALL {
            let (own, rest) = slots.split_at_mut(meter.columns.len());
            if meter.is_read_in(moment) {
                (meter.read)(self.allocator, own);
            }
            slots = rest;
        }
        self.moments[self.marks] = Some((moment, live_bytes));
        self.marks += 1;
    }

    fn note(&mut self, name: &'static str, value: u64) {
        self.notes.insert(name.into(), value);
    }
}

impl<'a> Board<'a> {
    fn new(allocator: &'a dyn Allocator) -> Self {
        const UNREAD: [Option<u64>; meters::COLUMNS] = [None; meters::COLUMNS];
        Board {
            allocator,
            moments: [None; MOST_MARKS],
            marks: 0,
            readings: [UNREAD; MOST_MARKS],
            notes: BTreeMap::new(),
        }
    }

    /// The readings by name, moment by moment.
    fn by_name(&self) -> BTreeMap<String, Vec<Option<u64>>> {
        let names = meters::ALL.iter().flat_map(|meter: &&Meter| meter.columns).map(|reading| reading.name);
        let column = |at: usize| self.readings[..self.marks].iter().map(|row| row[at]).collect();
        names.enumerate().map(|(at, name)| (name.to_string(), column(at))).collect()
    }

    /// The maximum number of arenas over all moments.
    fn most_arenas(&self) -> Option<u64> {
        self.by_name().get("allocator_arenas")?.iter().flatten().copied().max()
    }

    fn answer(
        &self,
        outcome: &Outcome,
        latency: &LatencyMeter,
        version: String,
        found: BTreeMap<String, String>,
    ) -> Measured {
        let marked = || self.moments.iter().flatten();
        Measured {
            version,
            found,
            unproven: BTreeMap::new(),
            moments: marked().map(|(moment, _)| *moment).collect(),
            requested_bytes: marked().map(|(_, live)| *live).collect(),
            readings: self.by_name(),
            operations: outcome.operations,
            active_ns: outcome.active.as_nanos() as u64,
            worker_us: 0,
            latency: latency.latency(outcome.timed_every),
            verified: outcome.verified,
            notes: self.notes.clone(),
            ..Measured::default()
        }
    }
}
