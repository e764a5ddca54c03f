//! `who --under`: where another allocator puts the blocks of a trace. In: a trace, a candidate, a moment. Out: the addresses of the blocks
//! in a replay, which runs in a fresh process.

use std::path::Path;
use std::time::Duration;

use tempfile::NamedTempFile;

use crate::commands::measure::watch_interrupts;
use crate::commands::replay::whole;
use crate::commands::run::candidates::own_like;
use crate::commands::{cells, terminal};
use allocanary_cell::spec::Spec;
use allocanary_doctor::program::Program;
use allocanary_kernel::sys;
use allocanary_study::error::{Error, Result};
use allocanary_study::session::{Executor, Linked, Outcome};
use allocanary_study::{StudyFile, plan};
use allocanary_trace::format::Marks;
use allocanary_trace::placed::{PAGE, Placed};
use allocanary_trace::prepare::prepare;
use allocanary_trace::reader::Trace;
use allocanary_trace::replay::Moment as Stops;
use allocanary_who::Moment;

/// What came of a replay.
pub struct Replayed {
    /// The candidate, without `own`.
    pub candidate: String,
    /// Where the blocks were.
    pub placed: Placed,
    /// How many events of the trace lie before.
    pub events: u64,
}

/// Replays a trace under a candidate until a moment.
pub fn replayed(path: &Path, trace: &Trace, candidate: &str, moment: &Moment) -> Result<Replayed> {
    let candidate = named(trace, candidate)?;
    // A replay notes resident pages of this size.
    let found = sys::page_bytes();
    if found != PAGE {
        return Err(Error::Input(format!(
            "--under {candidate}: wanted a kernel with pages of {PAGE} bytes, found {found}"
        )));
    }
    let file = NamedTempFile::new().map_err(|error| Error::file(std::env::temp_dir(), "making a file in", error))?;
    let (path, blocks) = (whole(path)?, whole(file.path())?);
    // A replay has its marks in whole milliseconds.
    let (stops, idle_at) = match moment.name {
        "peak" => (Stops::Peak, None),
        "idle" => (Stops::Idle, None),
        _ => (Stops::Idle, Some((moment.nanos / 1_000_000).clamp(1, 1_000_000_000))),
    };
    let at = if stops == Stops::Peak { "peak" } else { "idle" };
    let mut workload = format!("replay:trace={path},blocks={blocks},blocks_at={at}");
    idle_at.inspect(|millis| workload.push_str(&format!(",idle_at={millis}")));
    let length = Duration::from_nanos(trace.header.nanos(trace.header.last_ticks));
    let deadline = Duration::from_secs(60) + length * 20;
    let roster = cells::roster(&[])?;
    let study = StudyFile {
        name: Some("who".into()),
        candidates: Some(vec![candidate.clone()]),
        workloads: Some(vec![workload]),
        threads: Some(vec![1]),
        repeats: Some(1),
        deadline: Some(format!("{}s", deadline.as_secs())),
        ..StudyFile::default()
    };
    let planned = plan(&study.check()?, &roster.descriptions())?;
    let [cell] = &planned[..] else { return Err(Error::Input(format!("--under {candidate}: wanted one candidate"))) };
    terminal::tell(format_args!("replaying {path} under {candidate}"));
    let prepared =
        prepare(Path::new(&path), Marks { idle: idle_at.map(|millis| millis * 1_000_000), ..Marks::default() })?;
    let none = || Error::Input(format!("{path}: no allocation was recorded: there is nothing to replay"));
    let events = prepared.events_before(stops).ok_or_else(none)?;
    let row = match Linked::new(&roster).run(cell, deadline, watch_interrupts()) {
        Outcome::Stopped => return Err(Error::Interrupted),
        Outcome::Row(row) => row,
    };
    if let Some(failure) = row.error {
        return Err(Error::Cell(format!("--under {candidate}: the replay failed: {}", failure.text)));
    }
    Ok(Replayed { candidate, placed: Placed::read(file.path())?, events })
}

/// The candidate; of `own` the one that is like what the program is linked with.
fn named(trace: &Trace, candidate: &str) -> Result<String> {
    let wrong = |text: String| Error::Input(format!("--under {candidate}: {text}"));
    let spec = Spec::parse(candidate).map_err(wrong)?;
    if spec.name != "own" {
        return Ok(candidate.into());
    }
    let program = &trace.header.program;
    let looked = Program::look_at(program)
        .map_err(|error| wrong(format!("{error}: name the allocator, such as system or jemalloc")))?;
    let own = own_like(&looked).ok_or_else(|| {
        wrong(format!(
            "{program} has {}, which is no allocator of this build: name one, such as system or jemalloc",
            looked.own.name()
        ))
    })?;
    Ok(Spec { name: own.into(), ..spec }.to_string())
}
