//! `allocanary replay`: replays a trace under every candidate. In: a trace, flags. Out: rows and a report, as from a
//! study.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use super::cells;
use super::measure::MeasureRun;
use super::output::VerbOutput;
use super::terminal;
use crate::args::{PaceFlags, ReplayFlags};
use allocanary_facts::ours;
use allocanary_rows::error::Error;
use allocanary_rows::error::Result;
use allocanary_study::session::{Linked, Roster, Studies, StudyFile, StudyFiles};
use allocanary_text::units::{Unit, parse_duration, show_duration};
use allocanary_trace::format::Marks;
use allocanary_trace::prepare::prepare;

/// The metrics of the report.
const METRICS: [&str; 5] = ["anonymous", "peak_anonymous", "cpu", "throughput", "faults"];

/// The time for which a replay is idle without --settle.
const SETTLE: Duration = Duration::from_millis(50);

/// Replays a trace.
pub fn run(flags: &ReplayFlags) -> Result<ExitCode> {
    let ReplayStudy { study, seconds, .. } = study(&only(&flags.trace)?, &flags.how, flags.settle.as_deref())?;
    let candidates = Some(candidates());
    let study = StudyFile { candidates, ..study }.overridden_by(flags.file());
    study.clone().check()?;
    let output = VerbOutput::of_tables("replay", &flags.tables, std::slice::from_ref(&study))?;
    let group = Studies(vec![study]);
    let target = flags.rows.target(&flags.run)?.unwrap_or(StudyFiles::Fresh("replay".into()));
    let roster = timed(cells::roster_for(&group, &flags.run.cells)?, seconds);
    MeasureRun {
        group: &group,
        roster: &roster,
        target,
        resume: flags.resume,
        executor: &Linked::new(&roster),
        write_for: flags.run.write_for,
        output,
    }
    .run()
}

/// The trace, or the only one in a folder of traces.
fn only(path: &Path) -> Result<PathBuf> {
    if !path.is_dir() {
        return Ok(path.into());
    }
    let shown = path.display();
    let entries = fs::read_dir(path).map_err(|error| Error::file(path, "looking for traces", error))?;
    let mut traces: Vec<(u64, PathBuf)> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|file| file.extension().is_some_and(|extension| extension == "trace"))
        .map(|file| (file.metadata().map_or(0, |meta| meta.len()), file))
        .collect();
    // The largest trace is most likely that of the program. The others are then of processes that it started.
    traces.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    match traces.as_slice() {
        [] => Err(Error::Input(format!("{shown}: wanted a trace of `allocanary record`, found a folder without one"))),
        [(_, one)] => Ok(one.clone()),
        several => {
            const SHOWN: usize = 12;
            let line =
                |(bytes, file): &(u64, PathBuf)| format!("  {}  {}", file.display(), Unit::Bytes.show(*bytes as f64));
            let mut lines: Vec<String> = several.iter().take(SHOWN).map(line).collect();
            lines.extend(
                several
                    .len()
                    .checked_sub(SHOWN)
                    .filter(|more| *more > 0)
                    .map(|more| format!("  and {more} smaller ones")),
            );
            let (count, lines) = (several.len(), lines.join("\n"));
            Err(Error::Input(format!("{shown}: wanted one trace, found {count}: name one of them\n{lines}")))
        }
    }
}

/// A trace as a study.
pub struct ReplayStudy {
    /// The study, without candidates.
    pub study: StudyFile,
    /// How long the program's own times take in a replay; zero if the replay does not keep them.
    pub paced: Duration,
    /// The idle time before `idle` is read.
    pub idle: Duration,
    /// How long a replay takes without this idle time, in seconds.
    pub seconds: f64,
}

/// The estimated duration of a replay. It depends on the operations, the pages at the peak, and the work of every cell
/// before and after. These figures are from one machine; the first finished cells correct the estimate.
fn seconds(operations: u64, peak_live: u64, paced: Duration) -> f64 {
    const EACH: f64 = 0.1e-6;
    const PAGE: f64 = 0.5e-6;
    const ANY: f64 = 0.1;
    ANY + operations as f64 * EACH + peak_live as f64 / 4096.0 * PAGE + paced.as_secs_f64()
}

/// The cells, with the time that a replay of this trace takes.
pub fn timed(mut roster: Roster, seconds: f64) -> Roster {
    let jobs = roster.cells.iter_mut().flat_map(|(cell, _)| &mut cell.workloads);
    jobs.filter(|job| job.name == "replay").for_each(|job| job.seconds = seconds);
    roster
}

/// Reads a trace, prints what it contains, and makes a study of it.
pub fn study(path: &Path, how: &PaceFlags, settle: Option<&str>) -> Result<ReplayStudy> {
    let settle = settle.map_or(Ok(SETTLE), settling)?;
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
    let pace = how.pace.unwrap_or(0);
    let touch = how.touch.as_deref().unwrap_or("page");
    let paced = if pace > 0 { length / pace } else { Duration::ZERO };
    let limit = Duration::from_secs(60) + length * 20 + paced;
    let mut workload = format!("replay:trace={trace},pace={pace},touch={touch},settle={}ms", settle.as_millis());
    for (name, mark) in [("peak_at", marks.peak), ("idle_at", marks.idle)] {
        if let Some(nanos) = mark {
            workload.push_str(&format!(",{name}={}ms", nanos / 1_000_000));
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
        run_timeout: Some(format!("{}s", limit.as_secs())),
        ..StudyFile::default()
    };
    let seconds = seconds(prepared.operations, prepared.peak_live, paced);
    Ok(ReplayStudy { study, paced, idle: settle, seconds })
}

/// The absolute path of a file, as a workload names it.
pub fn whole(trace: &Path) -> Result<String> {
    let whole = trace.canonicalize().map_err(|error| Error::file(trace, "opening", error))?;
    let text = whole.to_str().filter(|text| !text.contains(','));
    let wanted = || Error::Input(format!("{}: wanted a path without a comma, in UTF-8", trace.display()));
    text.map(String::from).ok_or_else(wanted)
}

/// The time of `--settle`.
fn settling(text: &str) -> Result<Duration> {
    let wanted = || Error::Input(format!("--settle: wanted a time of 1ms or more, such as 50ms, found `{text}`"));
    parse_duration(text).filter(|time| *time >= Duration::from_millis(1)).ok_or_else(wanted)
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

/// The candidates if the user names none: those of this build.
fn candidates() -> Vec<String> {
    let here = ours().filter(|(_, ours)| ours.is_built).flat_map(|(_, ours)| ours.candidates);
    here.filter(|suggested| suggested.replayed).map(|suggested| suggested.candidate.to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_trace_takes_longer_than_a_short_one() {
        let short = seconds(1000, 1 << 20, Duration::ZERO);
        let long = seconds(100_000_000, 1 << 30, Duration::ZERO);
        assert!(short < 0.2 && (5.0..20.0).contains(&long), "{short} {long}");
        assert!(seconds(1000, 1 << 20, Duration::from_secs(9)) > 9.0, "its own times");
    }

    #[test]
    fn a_folder_has_one_trace_or_must_be_chosen_from() {
        let folder = tempfile::tempdir().unwrap();
        let said = |path: &Path| only(path).unwrap_err().to_string();
        assert!(said(folder.path()).contains("found a folder without one"));
        fs::write(folder.path().join("notes.txt"), "").unwrap();
        let first = folder.path().join("a.trace");
        fs::write(&first, "12").unwrap();
        assert_eq!((only(folder.path()).unwrap(), only(&first).unwrap()), (first.clone(), first));
        fs::write(folder.path().join("b.trace"), "12345").unwrap();
        let text = said(folder.path());
        assert!(text.contains("found 2") && text.find("b.trace").unwrap() < text.find("a.trace").unwrap(), "{text}");
    }
}
