//! Stages with a scripted executor: what is run, kept, resumed and refused. No process is started.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use tempfile::tempdir;

use super::*;
use crate::session::{ScriptStep, Scripted};
use allocanary_rows::Moment;
use allocanary_rows::provenance::Build;
use allocanary_rows::sample::{Failure, FailureKind, Measured};

const SECOND: Duration = Duration::from_secs(1);
const NAMES: [&str; 2] = ["system", "jemalloc"];

fn both() -> Vec<Candidate> {
    NAMES.map(Candidate::from).into()
}

fn described() -> Vec<Description> {
    Scripted::described(&["jemalloc", "system"], &allocanary_cell::workloads::described())
}

/// An answer after two seconds, with this many resident bytes.
fn resident(bytes: u64) -> ScriptStep {
    let readings = [("resident_bytes".to_string(), vec![Some(bytes)])].into();
    let answer = Measured {
        version: "5".into(),
        moments: vec![Moment::Idle],
        requested_bytes: vec![0],
        readings,
        operations: 1,
        active_ns: 1,
        ..Measured::default()
    };
    ScriptStep::Answers(Box::new(answer), 2 * SECOND)
}

fn by_name(cell: &Cell) -> ScriptStep {
    resident(if cell.candidate == "system".into() { 100 } else { 300 } + u64::from(cell.repeat))
}

/// A watch that shows nothing.
pub(super) struct Silent;

impl SearchProgress for Silent {
    fn stage(&mut self, _stage: &str, _candidates: usize, _new: &[Cell]) {}
    fn row(&mut self, _sample: &Sample) {}
    fn ends(&mut self) {}
}

/// Calls `with` with a source of rows in a folder, which may already have rows. Returns the cells that were run.
fn source<R>(
    folder: &Path,
    line: impl FnMut(&Cell) -> ScriptStep,
    with: impl FnOnce(&mut Cells) -> R,
) -> Result<(R, Vec<Cell>)> {
    let (scripted, interrupted, mut silent) = (Scripted::by(line), AtomicBool::new(false), Silent);
    let file = StudyFile::parse("test", "candidates = ['system']\nworkloads = ['small']\nthreads = [1]\n").unwrap();
    let job = SearchJob {
        executor: &scripted,
        cells: described(),
        file,
        budget: Some(10 * SECOND),
        interrupted: &interrupted,
    };
    let target = StudyFiles::Folder(folder.to_path_buf());
    let store = RowsFile::open(&target, true)?;
    let mut cells = Cells::new(job, &target, store, &mut silent)?;
    let result = with(&mut cells);
    drop(cells);
    Ok((result, scripted.ran()))
}

/// The resident bytes of each candidate, sorted.
fn resident_of(rows: &Rows) -> BTreeMap<String, Vec<f64>> {
    let sorted = |group: &CellRepeats| {
        let mut values = group.values_of("resident").to_vec();
        values.sort_by(f64::total_cmp);
        values
    };
    rows.groups.iter().map(|(name, group)| (name.to_string(), sorted(group))).collect()
}

#[test]
fn stages_are_told_from_studies_of_such_names() {
    assert!(is_stage(&stage_name(FINAL)) && is_stage(&stage_name("race-2")));
    for other in ["tune-up", "tune-race-day", "tuned", "final", "tune-"] {
        assert!(!is_stage(other), "{other}");
    }
}

#[test]
fn a_stage_measures_what_it_has_not_measured_yet() {
    let folder = tempdir().unwrap();
    let ((two, three, left), ran) = source(folder.path(), by_name, |cells| {
        let two = cells.rows("race-1", &both(), 2).unwrap();
        let left = cells.seconds_left();
        (two, cells.rows("race-1", &both(), 3).unwrap(), left)
    })
    .unwrap();
    assert_eq!(resident_of(&two)["system"], [100.0, 101.0]);
    assert_eq!(resident_of(&three)["jemalloc"], [300.0, 301.0, 302.0]);
    assert_eq!(ran.len(), 6, "the rows of the first call count in the second");
    assert!(ran.iter().all(|cell| cell.study.as_deref() == Some("tune-race-1")));
    assert_eq!((two.seconds_each, left), (Some(2.0), Some(2.0)), "four cells of two seconds each, of ten");
}

#[test]
fn the_proof_has_rows_and_requests_of_its_own() {
    let folder = tempdir().unwrap();
    let (found, ran) = source(folder.path(), by_name, |cells| {
        cells.rows("race-1", &both(), 2).unwrap();
        cells.rows(FINAL, &both(), 2).unwrap();
        cells.proof.len()
    })
    .unwrap();
    assert_eq!((found, ran.len()), (4, 8));
    let seeds = |stage: &str| -> BTreeSet<u64> {
        ran.iter().filter(|cell| cell.study.as_deref() == Some(stage)).map(|cell| cell.seed).collect()
    };
    assert!(seeds("tune-race-1").is_disjoint(&seeds("tune-final")));
}

#[test]
fn a_resumed_search_runs_what_is_missing_and_what_failed() {
    let folder = tempdir().unwrap();
    let failed = |cell: &Cell| match (cell.candidate.spec.name.as_str(), cell.repeat) {
        ("jemalloc", 1) => {
            ScriptStep::Fails(Failure { kind: FailureKind::Crashed, text: "killed by signal 11".into() }, SECOND)
        }
        _ => by_name(cell),
    };
    let (rows, _) = source(folder.path(), failed, |cells| cells.rows("race-1", &both(), 2).unwrap()).unwrap();
    assert_eq!(rows.failures, [("jemalloc".into(), "killed by signal 11".to_string())].into());
    let (rows, ran) = source(folder.path(), by_name, |cells| cells.rows("race-1", &both(), 2).unwrap()).unwrap();
    let ran: Vec<(&str, u32)> = ran.iter().map(|cell| (cell.candidate.spec.name.as_str(), cell.repeat)).collect();
    assert_eq!((ran, rows.groups[&"jemalloc".into()].failed), (vec![("jemalloc", 1)], 1), "its earlier failure counts");
    assert_eq!(resident_of(&rows)["jemalloc"], [300.0, 301.0]);
}

#[test]
fn an_interrupt_is_an_error_of_its_kind_and_keeps_the_rows() {
    let folder = tempdir().unwrap();
    let mut count = 0;
    let third = |cell: &Cell| {
        count += 1;
        if count == 3 { ScriptStep::Interrupts } else { by_name(cell) }
    };
    let (ended, ran) = source(folder.path(), third, |cells| cells.rows("race-1", &both(), 2).map(|_| ())).unwrap();
    assert!(matches!(ended, Err(Error::Interrupted)) && ran.len() == 3, "{ended:?}");
    let (_, ran) = source(folder.path(), by_name, |cells| cells.rows("race-1", &both(), 2).unwrap()).unwrap();
    assert_eq!(ran.len(), 2, "two rows were kept");
}

#[test]
fn rows_of_another_build_are_not_continued() {
    let folder = tempdir().unwrap();
    source(folder.path(), by_name, |cells| cells.rows("race-1", &both(), 1).unwrap()).unwrap();
    let path = folder.path().join("samples.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace(&Build::this().id, "0123456789abcdef")).unwrap();
    let refused = source(folder.path(), by_name, |_| ()).unwrap_err().to_string();
    assert!(refused.contains("of another build, 0123456789abcdef: name another --out-dir"), "{refused}");
}
