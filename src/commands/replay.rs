//! `allocanary replay`: a trace under every candidate. In: a trace, flags. Out: what a study gives: rows, a report.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use super::measure::{self, Measurement};
use super::terminal;
use crate::args::{PaceFlags, ReplayFlags};
use allocanary_kernel::units::{Unit, parse_duration, show_duration};
use allocanary_study::error::{Error, Result};
use allocanary_study::run::Target;
use allocanary_study::session::Linked;
use allocanary_study::{Studies, StudyFile};
use allocanary_trace::format::Marks;
use allocanary_trace::prepare::prepare;

/// What is compared where the user names no candidates.
const CANDIDATES: [&str; 5] = ["system", "system:arena_max=1", "jemalloc", "jemalloc:narenas=1", "mimalloc"];
/// What the report shows.
const METRICS: [&str; 5] = ["anon", "peak", "cpu", "throughput", "faults"];

/// Replays a trace.
pub fn run(flags: &ReplayFlags) -> Result<ExitCode> {
    let Replay { study, .. } = study(&flags.trace, &flags.how)?;
    let candidates = Some(candidates());
    let study = StudyFile { candidates, ..study }.overridden_by(flags.file());
    study.clone().check()?;
    let group = Studies(vec![study]);
    let target = match &flags.run.out {
        Some(out) => Target::of(out)?,
        None => Target::Fresh("replay".into()),
    };
    let roster = measure::roster_for(&group, &flags.run.cells)?;
    Measurement { group: &group, roster: &roster, target, resume: flags.resume, executor: &Linked::new(&roster) }.run()
}

/// A trace as a study.
pub struct Replay {
    /// The study, without candidates.
    pub study: StudyFile,
    /// How long the program's own times last in a replay: zero if it is not paced.
    pub paced: Duration,
    /// The rest before `idle` is read.
    pub idle: Duration,
}

/// Reads a trace, says what it has, and makes a study of it.
pub fn study(path: &Path, how: &PaceFlags) -> Result<Replay> {
    let trace = whole(path)?;
    let marks = how.mark_at.as_deref().map_or(Ok(Marks::default()), marks)?;
    let prepared = prepare(Path::new(&trace), marks)?;
    if prepared.operations == 0 {
        return Err(Error::Input(format!(
            "{}: no allocation was recorded: there is nothing to replay",
            path.display()
        )));
    }
    let length = Duration::from_nanos(prepared.nanos);
    let share = 100.0 * prepared.peak_live as f64 / prepared.most_resident.max(1) as f64;
    terminal::tell(format_args!(
        "{}: {} operations of {} threads in {}; at the peak {} live, {share:.0} % of the program's RssAnon of {}",
        path.display(),
        prepared.operations,
        prepared.threads,
        show_duration(length),
        Unit::Bytes.show(prepared.peak_live as f64),
        Unit::Bytes.show(prepared.most_resident as f64),
    ));
    if prepared.rate > 1 {
        terminal::tell(format_args!(
            "one block in {} was recorded: the replay's memory is about that part of the program's",
            prepared.rate
        ));
    }
    let (pace, idle) = (how.pace.unwrap_or(0), how.idle.unwrap_or(50));
    let touch = how.touch.as_deref().unwrap_or("page");
    let paced = if pace > 0 { length / pace } else { Duration::ZERO };
    let limit = Duration::from_secs(60) + length * 20 + paced;
    let mut workload = format!("replay:trace={trace},pace={pace},touch={touch},idle={idle}");
    for (name, mark) in [("peak_at", marks.peak), ("idle_at", marks.idle)] {
        if let Some(nanos) = mark {
            workload.push_str(&format!(",{name}={}", nanos / 1_000_000));
        }
    }
    let study = StudyFile {
        name: Some("replay".into()),
        question: Some(format!(
            "What does {} cost under each allocator?",
            path.file_name().unwrap_or_default().display()
        )),
        metrics: Some(METRICS.map(String::from).to_vec()),
        workloads: Some(vec![workload]),
        threads: Some(vec![1]),
        deadline: Some(format!("{}s", limit.as_secs())),
        ..StudyFile::default()
    };
    Ok(Replay { study, paced, idle: Duration::from_millis(u64::from(idle)) })
}

/// A trace's whole path, as a workload names it.
fn whole(trace: &Path) -> Result<String> {
    let whole = trace.canonicalize().map_err(|error| Error::file(trace, "opening the trace", error))?;
    let text = whole.to_str().filter(|text| !text.contains(','));
    let wanted = || Error::Input(format!("{}: wanted a path without a comma, in UTF-8", trace.display()));
    text.map(String::from).ok_or_else(wanted)
}

/// The marks of `--mark-at`, in whole milliseconds.
fn marks(text: &str) -> Result<Marks> {
    let wanted = || {
        Error::Input(format!(
            "--mark-at: wanted one time or two rising ones, such as 12s or 12s,20s (from 1ms to 11 days), found `{text}`"
        ))
    };
    let nanos = |word: &str| {
        let millis = parse_duration(word)?.as_millis();
        (1..=1_000_000_000).contains(&millis).then_some(millis as u64 * 1_000_000)
    };
    let times: Option<Vec<u64>> = text.split(',').map(nanos).collect();
    match times.ok_or_else(wanted)?[..] {
        [peak] => Ok(Marks { peak: Some(peak), ..Marks::default() }),
        [peak, idle] if peak < idle => Ok(Marks { peak: Some(peak), idle: Some(idle), ..Marks::default() }),
        _ => Err(wanted()),
    }
}

/// The candidates of this build.
fn candidates() -> Vec<String> {
    let is_here = |name: &&str| {
        (cfg!(feature = "jemalloc") || !name.starts_with("jemalloc"))
            && (cfg!(feature = "mimalloc") || !name.starts_with("mimalloc"))
    };
    CANDIDATES.into_iter().filter(is_here).map(String::from).collect()
}
