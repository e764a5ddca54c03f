//! Whole searches with a scripted executor: the space, the races, the proof and the answer, over cells with known
//! figures.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tempfile::{TempDir, tempdir};

use super::super::{answer, finalists};
use allocanary_facts::setting::{Setting, SettingKind};
use allocanary_measure::metrics::Metrics;
use allocanary_measure::rows;
use allocanary_measure::summary::StudyNotes;
use allocanary_rows::Candidate;
use allocanary_rows::Cell;
use allocanary_rows::Moment;
use allocanary_rows::description::Description;
use allocanary_rows::error::Result;
use allocanary_rows::load::Load;
use allocanary_rows::sample::{Failure, FailureKind, Latency, Measured, Sample};
use allocanary_study::program::runtimes;
use allocanary_study::search::cells::{Cells, SearchJob, SearchProgress};
use allocanary_study::search::goal::{Goal, GoalSource};
use allocanary_study::search::space::{Rest, Space};
use allocanary_study::search::whole::{Plan, Searched, search};
use allocanary_study::session::{RowsFile, ScriptStep, Scripted, StudyFile, StudyFiles};
use allocanary_text::outside::TerminalStyle;

/// A watch that shows nothing.
struct Silent;

impl SearchProgress for Silent {
    fn stage(&mut self, _stage: &str, _candidates: usize, _new: &[Cell]) {}
    fn row(&mut self, _sample: &Sample) {}
    fn ends(&mut self) {}
}

const SECOND: Duration = Duration::from_secs(1);

/// The cost of a candidate: resident MiB, and milliseconds for a thousand operations; `None` if it crashes.
type Cost = Option<(u64, u64)>;

/// The cost of the system's malloc by default.
const USUAL: Cost = Some((80, 500));

/// A `system` with the settings that are searched.
fn described() -> Vec<Description> {
    let mut cells = Scripted::described(&["system"], &allocanary_cell::workloads::described());
    let number = |name| Setting::new(name, SettingKind::Number { min: 0, max: 99_999_999 }, "");
    let names = ["arena_max", "trim_threshold", "mmap_threshold", "tcache_count", "top_pad"];
    cells[0].settings = names.map(number).to_vec();
    cells
}

/// An answer after ten seconds that differs a little from repeat to repeat.
fn line(cell: &Cell, cost: Cost) -> ScriptStep {
    let Some((rss, millis)) = cost else {
        let text = "ended with exit code 4: no luck today".into();
        return ScriptStep::Fails(Failure { kind: FailureKind::Crashed, text }, 10 * SECOND);
    };
    let repeat = u64::from(cell.repeat);
    let readings = [("resident_bytes".to_string(), vec![Some((rss << 20) + repeat * 4096)])].into();
    let answer = Measured {
        version: "1.2".into(),
        moments: vec![Moment::Idle],
        requested_bytes: vec![4 << 20],
        readings,
        operations: 1000,
        active_ns: millis * 1_000_000 + repeat * 100_000,
        latency: Some(Latency { timed: 1, every: 1, p50_ns: 10, p99_ns: 100, p999_ns: 200, max_ns: 300 }),
        ..Measured::default()
    };
    ScriptStep::Answers(Box::new(answer), 10 * SECOND)
}

/// The value of a setting of a cell.
fn of<'a>(cell: &'a Cell, setting: &str) -> Option<&'a str> {
    cell.settings.get(setting).map(String::as_str)
}

/// The result of a search.
struct Found {
    searched: Searched,
    /// The notes about all rows of the proof.
    notes: Vec<String>,
    /// The number of cells that were run.
    ran: usize,
}

impl Found {
    fn answer(&self) -> String {
        let job = answer::TuneFacts { text: "small, 4 threads", holds: "" };
        let look = TerminalStyle { color: false, width: 120 };
        format!(
            "{}\n{}",
            finalists::table(&self.searched, job.text, &look),
            answer::recommendation(&self.searched, &job)
        )
    }
}

/// Searches in a folder, which may already have rows.
fn found_in(folder: &Path, budget: Option<Duration>, objective: &str, cost: impl Fn(&Cell) -> Cost) -> Result<Found> {
    found_among(described(), None, folder, budget, objective, cost)
}

/// Searches the settings of these candidates and of this runtime. The first candidate is what the user has.
fn found_among(
    cells: Vec<Description>,
    runtime: Option<&str>,
    folder: &Path,
    budget: Option<Duration>,
    objective: &str,
    cost: impl Fn(&Cell) -> Cost,
) -> Result<Found> {
    let scripted = Scripted::by(|cell| line(cell, cost(cell)));
    let (interrupted, mut silent) = (AtomicBool::new(false), Silent);
    let present = cells[0].allocator.clone();
    let rest = Rest::Workload(Duration::ZERO);
    let space = Space::new(&cells, None, None, 4, rest)?.of_runtime(runtime, Some(80 << 20));
    let text = format!("candidates = ['{present}']\nworkloads = ['small']\nthreads = [4]\n");
    let file = StudyFile::parse("test", &text)?;
    let job = SearchJob { executor: &scripted, cells: cells.clone(), file, budget, interrupted: &interrupted };
    let target = StudyFiles::Folder(folder.to_path_buf());
    let mut source = Cells::new(job, &target, RowsFile::open(&target, true)?, &mut silent)?;
    let plan = Plan {
        goal: Goal::parse(objective, None, GoalSource::Workload, &Metrics::default())?,
        present: present.as_str().into(),
        own: None,
        first: space.first().all,
        second: Box::new(|survivors| space.around(survivors).all),
        repeats: 6,
    };
    let searched = search(&plan, &mut source)?;
    let notes = source.findings(&searched, &StudyNotes::default())?.notes;
    drop(source);
    Ok(Found { searched, notes, ran: scripted.ran().len() })
}

/// Searches in a new folder.
fn found(cost: impl Fn(&Cell) -> Cost) -> (TempDir, Result<Found>) {
    let folder = tempdir().unwrap();
    let found = found_in(folder.path(), None, "memory", cost);
    (folder, found)
}

fn samples(folder: &Path) -> Vec<Sample> {
    let mut all = Vec::new();
    rows::read(&[folder.to_path_buf()], |sample| {
        all.push(sample);
        Ok(())
    })
    .unwrap();
    all
}

/// Changes the rows of a search. Rows for which `change` returns false are left out.
fn change(folder: &Path, change: impl FnMut(&mut Sample) -> bool) {
    let mut all = samples(folder);
    all.retain_mut(change);
    let lines: String = all.iter().map(|row| rows::written(row) + "\n").collect();
    std::fs::write(folder.join("samples.jsonl"), lines).unwrap();
}

fn one_arena_is_small(cell: &Cell) -> Cost {
    if of(cell, "arena_max") == Some("1") { Some((20, 500)) } else { USUAL }
}

fn refused(found: Result<Found>) -> String {
    found.map(|found| found.answer()).unwrap_err().to_string()
}

#[test]
fn a_search_goes_the_same_way_with_the_same_rows_and_measures_nothing_anew() {
    let (folder, first) = found(one_arena_is_small);
    let first = first.unwrap();
    assert_eq!(first.searched.recommended().unwrap().candidate, "system:arena_max=1".into());
    let count =
        |stage: &str| samples(folder.path()).iter().filter(|row| row.cell.study.as_deref() == Some(stage)).count();
    assert_eq!(count("tune-race-1"), 6 * 2, "three values of arena_max, two of trim_threshold");
    let again = found_in(folder.path(), Some(Duration::MAX), "memory", |_| panic!("nothing is measured anew")).unwrap();
    assert_eq!((again.ran, again.answer()), (0, first.answer()));
}

#[test]
fn keep_what_you_have_is_an_answer() {
    let equal = found(|_| USUAL).1.unwrap();
    assert!(equal.searched.recommended().is_none());
    assert!(equal.answer().contains("Keep what you have, system: of "), "{}", equal.answer());
    // A candidate that exceeds its limit is not recommended either.
    let slow = |cell: &Cell| {
        let changed = of(cell, "arena_max").or(of(cell, "trim_threshold")).is_some();
        if changed { Some((20, 900)) } else { USUAL }
    };
    let slow = found(slow).1.unwrap().answer();
    assert!(slow.contains("Keep what you have, system: of ") && slow.contains("(beyond the limit)"), "{slow}");
}

#[test]
fn failures_and_missing_figures_end_the_search_with_the_reason() {
    let broken = refused(found(|_| None).1);
    assert!(broken.contains("system, which you have now, failed: ended with exit code 4: no luck today"), "{broken}");
    let folder = tempdir().unwrap();
    let silent = refused(found_in(folder.path(), None, "cpu", |_| USUAL));
    assert!(silent.contains("the rows have no cpu"), "{silent}");
    // A candidate that fails is named, and the search continues with the others.
    let two_fail = |cell: &Cell| if of(cell, "arena_max") == Some("2") { None } else { one_arena_is_small(cell) };
    let found = found(two_fail).1.unwrap().searched;
    let failed: Vec<String> = found.failures.keys().map(Candidate::to_string).collect();
    assert!(failed.contains(&"system:arena_max=2".to_string()), "{failed:?}");
    assert!(found.failures[&"system:arena_max=2".into()].starts_with("ended with exit code 4"));
    assert_eq!(found.recommended().unwrap().candidate, "system:arena_max=1".into());
}

#[test]
fn what_crashes_is_not_recommended_however_little_the_other_runs_need() {
    let crashes = |cell: &Cell| match (of(cell, "arena_max"), cell.repeat % 3) {
        (Some("1"), 2) => None,
        _ => one_arena_is_small(cell),
    };
    let (folder, first) = found(crashes);
    let first = first.unwrap();
    assert!(first.answer().contains("Keep what you have, system"), "{}", first.answer());
    assert!(first.answer().contains("runs failed"), "{}", first.answer());
    assert!(first.searched.failures.contains_key(&"system:arena_max=1".into()));
    // A candidate that crashed before an interruption, but not after it, is not recommended either.
    let failed = samples(folder.path()).iter().filter(|row| row.error.is_some()).count();
    let resumed = found_in(folder.path(), None, "memory", one_arena_is_small).unwrap();
    assert!(resumed.answer().contains("Keep what you have, system"), "{}", resumed.answer());
    let replaced = samples(folder.path()).iter().filter(|row| row.replaces.is_some()).count();
    assert!(failed > 0 && replaced == failed, "each names the failed one: {replaced} of {failed}");
}

#[test]
fn where_all_others_fail_there_is_no_answer() {
    let others = |cell: &Cell| if cell.settings.is_empty() { USUAL } else { None };
    let none = refused(found(others).1);
    assert!(none.contains("all 5 other candidates failed; the first, system:"), "{none}");
    // If all candidates of the second stage fail, the search still has an answer.
    let second = |cell: &Cell| {
        let is_second = |name: &&str| of(cell, name).is_some();
        if ["mmap_threshold", "tcache_count", "top_pad"].iter().any(is_second) {
            None
        } else {
            one_arena_is_small(cell)
        }
    };
    let found = found(second).1.unwrap().searched;
    assert_eq!(found.recommended().unwrap().candidate, "system:arena_max=1".into());
    assert!(found.notes.iter().any(|note| note.contains("other candidates failed; the first, system:")));
}

#[test]
fn rows_that_are_there_count_against_the_budget_with_the_time_that_they_took() {
    let (folder, first) = found(one_arena_is_small);
    first.unwrap();
    change(folder.path(), |row| {
        row.wall_us = 30_000_000;
        row.cell.study.as_deref() != Some("tune-final")
    });
    let refused = refused(found_in(folder.path(), Some(60 * SECOND), "memory", one_arena_is_small));
    assert!(refused.contains("too small to judge"), "{refused}");
}

#[test]
fn half_of_the_rows_of_another_kernel_are_not_continued() {
    let (folder, first) = found(one_arena_is_small);
    first.unwrap();
    let mut number = 0;
    change(folder.path(), |row| {
        number += 1;
        if number % 2 == 0 {
            row.provenance.host.kernel = "1.2.3".into();
        }
        true
    });
    let refused = refused(found_in(folder.path(), None, "memory", one_arena_is_small));
    assert!(refused.contains("the rows of this search are of two kinds of hosts: "), "{refused}");
}

#[test]
fn a_machine_that_was_too_busy_is_told() {
    let (folder, first) = found(one_arena_is_small);
    assert!(first.unwrap().notes.is_empty());
    change(folder.path(), |row| {
        row.load = Some(Load { runnable: 50, average: 48.5, cpus: 2, ..Load::default() });
        true
    });
    let busy = found_in(folder.path(), None, "memory", one_arena_is_small).unwrap().notes;
    let said = "the machine was too busy to judge small differences: 50 other tasks competed for 2 CPUs";
    assert!(busy.iter().any(|note| note.starts_with(said)), "{busy:?}");
}

/// A limit of memory has the effect of a ballast in 2019: fewer collections, for memory that the user allows. Here a limit of half the
/// memory costs a tenth of the throughput, and a limit of three quarters costs nothing.
#[test]
fn a_go_program_gets_the_least_limit_that_its_throughput_allows() {
    let mut cells = Scripted::described(&["own"], &allocanary_cell::workloads::described());
    cells[0].settings = runtimes::ALL
        .iter()
        .find(|one| one.name == "Go")
        .unwrap()
        .knobs
        .iter()
        .map(|knob| knob.setting.clone())
        .collect();
    let folder = tempdir().unwrap();
    let cost = |cell: &Cell| match (of(cell, "gogc"), of(cell, "memlimit")) {
        (_, Some(limit)) if limit == (40 << 20).to_string() => Some((40, 560)),
        (Some("off"), Some(limit)) if limit == (60 << 20).to_string() => Some((60, 480)),
        (Some("50"), _) => Some((62, 540)),
        _ => USUAL,
    };
    let found = found_among(cells, Some("Go"), folder.path(), None, "memory", cost).unwrap();
    let best = found.searched.recommended().unwrap().candidate.to_string();
    assert!(best.starts_with("own:gogc=off,") && best.ends_with("memlimit=62914560"), "{best}");
    assert!(found.answer().contains(&format!("Use {best}")), "{}", found.answer());
    assert!(
        samples(folder.path())
            .iter()
            .all(|row| of(&row.cell, "gogc") != Some("off") || of(&row.cell, "memlimit").is_some())
    );
}
