//! Measurements that go on with rows of before: which cells run, and what the rows say together.

use super::*;
use allocanary_measure::summary::{Findings, Fold, StudyNotes};

fn answers(count: usize) -> Vec<ScriptStep> {
    vec![answer(); count]
}

fn write(place: &Place, rows: &[Sample]) {
    let lines: String = rows.iter().map(|row| rows::written(row) + "\n").collect();
    fs::write(place.path().join("out/samples.jsonl"), lines).unwrap();
}

fn findings(rows: &[Sample]) -> Findings {
    let mut fold = Fold::default();
    rows.iter().try_for_each(|row| fold.add(row)).unwrap();
    Findings::of(fold, |_, _| StudyNotes::default())
}

/// The rows that count, the failures, and the studies that are not finished.
fn told(rows: &[Sample]) -> (usize, usize, bool) {
    let found = findings(rows);
    (found.rows, found.failures.len(), found.sections.iter().any(|section| !section.unfinished.is_empty()))
}

fn identities(rows: &[Sample]) -> BTreeSet<String> {
    rows.iter().map(|row| row.cell.identity()).collect()
}

#[test]
fn a_torn_last_line_is_measured_again() {
    let place = Place::new();
    drop(place.measure(&[study("a", 2, "")], false, answers(4)).unwrap());
    let path = place.path().join("out/samples.jsonl");
    let whole = fs::read_to_string(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 200]).unwrap();
    let (_, _, ran) = place.measure(&[study("a", 2, "")], true, answers(1)).unwrap();
    assert_eq!(ran.len(), 1);
    let mut kept = Vec::new();
    let problems = rows::read(std::slice::from_ref(&path), |row| {
        kept.push(row);
        Ok(())
    })
    .unwrap();
    assert!(problems.len() == 1 && problems[0].contains("samples.jsonl:4: not a row"), "it stays: {problems:?}");
    assert_eq!((kept.len(), identities(&kept).len()), (4, 4));
}

#[test]
fn a_study_that_grows_runs_only_what_is_new() {
    let place = Place::new();
    drop(place.measure(&[study("a", 2, "")], false, answers(4)).unwrap());
    let larger = StudyFile { threads: Some(vec![1, 2]), ..study("a", 2, "") };
    let (_, told, ran) = place.measure(&[larger], true, answers(4)).unwrap();
    assert_eq!(told.left, [4]);
    assert!(ran.iter().all(|cell| cell.job.threads() == Some(2)), "{ran:?}");
    assert_eq!(identities(&place.rows()).len(), 8);
}

#[test]
fn the_very_study_that_lies_there_is_run_and_stays_as_it_was_written() {
    let place = Place::new();
    let out = place.path().join("out");
    fs::create_dir(&out).unwrap();
    let text = format!("# Ours.\n{}", Studies(vec![study("a", 1, "")]).to_toml());
    fs::write(out.join("study.toml"), &text).unwrap();
    drop(place.measure(&[study("a", 1, "")], false, answers(2)).unwrap());
    assert_eq!(fs::read_to_string(out.join("study.toml")).unwrap(), text);
}

/// A container has a new host name after each start.
#[test]
fn a_study_that_is_finished_in_another_container_has_no_failures_left() {
    let place = Place::new();
    let both = [study("a", 2, "")];
    drop(place.measure(&both, false, answers(4)).unwrap());
    // The second container measured nothing new, and the first had two failures: its memory was too small.
    let fail = |row: &mut Sample| {
        row.measured = None;
        row.error = Some(Failure { kind: FailureKind::OutOfMemory, text: "too small".into() });
    };
    let mut rows = place.rows();
    rows.truncate(3);
    rows.iter_mut().for_each(|row| row.provenance.host.name = "pod-1".into());
    rows[..2].iter_mut().for_each(fail);
    write(&place, &rows);
    drop(place.measure(&both, true, answers(3)).unwrap());
    let mut rows = place.rows();
    assert_eq!((rows.len(), told(&rows)), (6, (4, 0, false)));

    // And once more, in a third: a row that replaced a failure fails, and is replaced.
    rows[3..].iter_mut().for_each(|row| row.provenance.host.name = "pod-2".into());
    fail(rows.iter_mut().skip(3).find(|row| row.replaces.is_some()).unwrap());
    write(&place, &rows);
    drop(place.measure(&both, true, answers(1)).unwrap());
    let mut rows = place.rows();
    assert_eq!((rows.len(), told(&rows)), (7, (4, 0, false)));
    // The order of the rows is no matter.
    rows.reverse();
    assert_eq!(told(&rows), (4, 0, false));
}

#[test]
fn failed_cells_count_once_however_often_they_are_tried_and_in_any_order_of_rows() {
    let place = Place::new();
    let group = [study("a", 3, "")];
    // Both candidates fail at first, and then one of them runs.
    let first = place.measure(&group, false, vec![failure(); 6]).unwrap().0;
    assert_eq!(first.failed, 6);
    drop(first);
    let before = fs::read_to_string(place.path().join("out/samples.jsonl")).unwrap();
    for again in [6, 3] {
        let by_name = |cell: &Cell| if cell.allocator == "jemalloc" { answer() } else { failure() };
        let (_, told, ran) = place.measure_by(&group, true, by_name).unwrap();
        assert_eq!((told.left, ran.len()), (vec![again], again));
    }
    assert!(fs::read_to_string(place.path().join("out/samples.jsonl")).unwrap().starts_with(&before));
    let mut rows = place.rows();
    assert_eq!(rows.len(), 6 + 6 + 3);
    assert!(rows[6..].iter().all(|row| row.replaces.is_some()));
    let said = |rows: &[Sample]| {
        let found = findings(rows);
        (found.rows, found.failures)
    };
    let forwards = said(&rows);
    rows.reverse();
    assert_eq!(forwards, said(&rows));
    let wanted = ("system, small, 1 thread".to_string(), "killed by signal 11".to_string(), 3);
    assert_eq!(forwards, (6, vec![wanted]), "jemalloc has no failure left");
}

#[test]
fn rows_of_another_build_are_not_continued_with_or_without_a_study_next_to_them() {
    let place = Place::new();
    drop(place.measure(&[study("a", 1, "")], false, answers(2)).unwrap());
    let mut rows = place.rows();
    let id = std::mem::replace(&mut rows[0].provenance.build.id, "0123456789abcdef".into());
    write(&place, &rows);
    for _ in 0..2 {
        let refused = place.refused(&study("a", 1, ""), true);
        for said in ["has rows of another build: wanted ", &id, "found ", "0123456789abcdef", "name another --out-dir"]
        {
            assert!(refused.contains(said), "{said}: {refused}");
        }
        let _ = fs::remove_file(place.path().join("out/study.toml"));
    }
}

#[test]
fn a_folder_that_is_removed_ends_the_study_and_its_rows_can_still_be_read() {
    let place = Place::new();
    let out = place.path().join("out");
    let mut cells = 0;
    let removes = |_: &Cell| {
        cells += 1;
        if cells == 3 {
            fs::remove_dir_all(&out).unwrap();
        }
        answer()
    };
    let (measured, told, ran) = place.measure_by(&[study("a", 4, "")], false, removes).unwrap();
    assert!(matches!(measured.ended, Err(Error::Gone(_))));
    assert_eq!((told.rows, ran.len()), (2, 3), "noticed at the next row");
    let left = measured.store.left().unwrap();
    assert_eq!((left.moved_to.is_none(), left.text().unwrap().lines().count()), (true, 3));
    assert!(!out.exists(), "what the user removed is not made again");
}
