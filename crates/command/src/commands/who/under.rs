//! `who --under`: where another allocator puts the blocks of a trace. In: a trace, a candidate, a moment. Out: the addresses of the blocks
//! in a replay, which runs in a fresh process.

use std::path::Path;
use std::time::Duration;

use tempfile::NamedTempFile;

use crate::commands::measure::watch_interrupts;
use crate::commands::replay::whole;
use crate::commands::run::candidates::own_like;
use crate::commands::{cells, terminal};
use allocanary_doctor::program::StartableProgram;
use allocanary_measure::metrics::metric_of_all;
use allocanary_rows::Cell;
use allocanary_rows::Spec;
use allocanary_rows::error::{Error, Result};
use allocanary_study::session::{CellOutcome, Executor, Linked, Roster, StudyFile, plan};
use allocanary_sys::sys;
use allocanary_trace::format::Marks;
use allocanary_trace::placed::{PAGE, Placed};
use allocanary_trace::prepare::prepare;
use allocanary_trace::reader::Trace;
use allocanary_trace::replay::ReplayMoment;
use allocanary_who::TracePoint;

/// The result of a replay.
pub struct ProcessReplay {
    /// The candidate. `own` is replaced by the allocator that it means.
    pub candidate: String,
    /// The addresses of the blocks.
    pub placed: Placed,
    /// How many events of the trace are before the moment.
    pub events: u64,
}

/// Replays a trace under a candidate until a moment.
pub fn replayed(path: &Path, trace: &Trace, candidate: &str, moment: &TracePoint) -> Result<ProcessReplay> {
    let asked = format!("--under {candidate}");
    let candidate = named(trace, candidate, &asked)?;
    let replay = MomentReplays::of(path, trace, candidate, moment, asked)?;
    terminal::tell(format_args!("replaying {} under {}", replay.path, replay.candidate));
    let (placed, _) = replay.run(None)?;
    Ok(ProcessReplay { candidate: replay.candidate, placed, events: replay.events })
}

/// Replays of a trace until a moment, each in its own process.
pub struct MomentReplays {
    /// The candidate. `own` is replaced by the allocator that it means.
    pub candidate: String,
    /// How many events of the trace are before the moment.
    pub events: u64,
    /// The absolute path of the trace.
    pub path: String,
    /// The beginning of an error: the flag that requested the replay.
    asked: String,
    roster: Roster,
    stops: ReplayMoment,
    idle_at: Option<u64>,
    deadline: Duration,
}

impl MomentReplays {
    /// Prepares the trace. `candidate` is a result of [`named`]. Errors begin with `asked`.
    pub fn of(
        path: &Path,
        trace: &Trace,
        candidate: String,
        moment: &TracePoint,
        asked: String,
    ) -> Result<MomentReplays> {
        // A replay records resident pages of this size.
        let found = sys::page_bytes();
        if found != PAGE {
            return Err(Error::Input(format!("{asked}: wanted a kernel with pages of {PAGE} bytes, found {found}")));
        }
        let path = whole(path)?;
        // The marks of a replay are whole milliseconds.
        let (stops, idle_at) = match moment.name {
            "peak" => (ReplayMoment::Peak, None),
            "idle" => (ReplayMoment::Idle, None),
            _ => (ReplayMoment::Idle, Some((moment.nanos / 1_000_000).clamp(1, 1_000_000_000))),
        };
        let length = Duration::from_nanos(trace.header.nanos(trace.header.last_ticks));
        let deadline = Duration::from_secs(60) + length * 20;
        let roster = cells::roster(&[])?;
        let mut replay = MomentReplays { candidate, events: 0, path, asked, roster, stops, idle_at, deadline };
        // A wrong candidate is reported before the trace is prepared.
        replay.cell("none", None)?;
        let prepared = prepare(Path::new(&replay.path), replay.marks())?;
        let none = || Error::Input(format!("{}: no allocation was recorded: there is nothing to replay", replay.path));
        replay.events = prepared.events_before(stops).ok_or_else(none)?;
        Ok(replay)
    }

    /// The requested marks. They replace those of the trace.
    pub fn marks(&self) -> Marks {
        Marks { idle: self.idle_at.map(|millis| millis * 1_000_000), ..Marks::default() }
    }

    /// Replays once. `elsewhere` is a prepared form of the trace with some blocks in a pool. Returns where the blocks
    /// were, and the processor time of the process in microseconds, if it was read.
    pub fn run(&self, elsewhere: Option<&Path>) -> Result<(Placed, Option<f64>)> {
        let file =
            NamedTempFile::new().map_err(|error| Error::file(std::env::temp_dir(), "making a file in", error))?;
        let elsewhere = elsewhere.map(whole).transpose()?;
        let cell = self.cell(&whole(file.path())?, elsewhere.as_deref())?;
        let row = match Linked::new(&self.roster).run(&cell, self.deadline, watch_interrupts()) {
            CellOutcome::Stopped => return Err(Error::Interrupted),
            CellOutcome::Row(row) => row,
        };
        let cpu = metric_of_all("cpu").of(&row);
        if let Some(failure) = row.error {
            return Err(Error::Cell(format!("{}: the replay failed: {}", self.asked, failure.text)));
        }
        Ok((Placed::read(file.path())?, cpu))
    }

    /// The cell that writes the addresses of its blocks to a file.
    fn cell(&self, blocks: &str, elsewhere: Option<&str>) -> Result<Cell> {
        let at = if self.stops == ReplayMoment::Peak { "peak" } else { "idle" };
        let mut workload = format!("replay:trace={},blocks={blocks},blocks_at={at}", self.path);
        self.idle_at.inspect(|millis| workload.push_str(&format!(",idle_at={millis}ms")));
        elsewhere.inspect(|form| workload.push_str(&format!(",elsewhere={form}")));
        let study = StudyFile {
            name: Some("who".into()),
            candidates: Some(vec![self.candidate.clone()]),
            workloads: Some(vec![workload]),
            threads: Some(vec![1]),
            repeats: Some(1),
            run_timeout: Some(format!("{}s", self.deadline.as_secs())),
            ..StudyFile::default()
        };
        let mut planned = plan(&study.check()?, &self.roster.descriptions())?;
        match planned.len() {
            1 => Ok(planned.remove(0)),
            _ => Err(Error::Input(format!("{}: wanted one candidate, found `{}`", self.asked, self.candidate))),
        }
    }
}

/// The candidate. `own` becomes the allocator of ours that is like the one of the program. Errors begin with `asked`.
pub fn named(trace: &Trace, candidate: &str, asked: &str) -> Result<String> {
    let wrong = |text: String| Error::Input(format!("{asked}: {text}"));
    let spec = Spec::parse(candidate).map_err(wrong)?;
    if spec.name != "own" {
        return Ok(candidate.into());
    }
    let program = &trace.header.program;
    let looked = StartableProgram::look_at(program)
        .map_err(|error| wrong(format!("{error}: name the allocator, such as --under system")))?;
    let own = own_like(&looked).ok_or_else(|| {
        wrong(format!(
            "{program} has {}, which is no allocator of this build: name one, such as --under system",
            looked.own.name()
        ))
    })?;
    Ok(Spec { name: own.into(), ..spec }.to_string())
}
