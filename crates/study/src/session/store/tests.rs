//! Where rows go: what is not ours is left alone, two studies never share a file, and rows outlive their folder.

use std::time::Duration;

use tempfile::tempdir;

use super::*;
use crate::session::{CellOutcome, Executor, ScriptStep, Scripted};
use allocanary_rows::Cell;
use allocanary_rows::job::Job;
use std::sync::atomic::AtomicBool;

fn row() -> Sample {
    let cell = Cell::new("system", "system", Job::workload("small", 1));
    let scripted = Scripted::new([ScriptStep::Answers(Box::default(), Duration::from_secs(1))]);
    match scripted.run(&cell, Duration::MAX, &AtomicBool::new(false)) {
        CellOutcome::Row(sample) => *sample,
        CellOutcome::Stopped => unreachable!("the script answers"),
    }
}

fn refused(target: &StudyFiles, resume: bool) -> String {
    RowsFile::open(target, resume).unwrap_err().to_string()
}

#[test]
fn a_file_that_is_not_ours_is_never_written_to() {
    let folder = tempdir().unwrap();
    for (name, text) in [
        ("passwd", "root:x:0:0:root:/root:/bin/bash\n"),
        ("config", "{\"a\":1}"),
        ("notes.jsonl", "{\"event\":1}\n{\"event\":2}\n"),
    ] {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        let target = StudyFiles::file(path.to_str().unwrap()).unwrap();
        for resume in [false, true] {
            let said = refused(&target, resume);
            assert!(said.contains(name) && said.contains("name another --output"), "{said}");
            assert!(!said.contains("--resume"), "no advice that would write to it: {said}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text, "{name}");
        }
    }
}

#[test]
fn rows_may_have_any_name_and_a_file_may_be_there_before_its_first_row() {
    let folder = tempdir().unwrap();
    for (name, text) in [("rows", rows::written(&row()) + "\n"), ("empty.jsonl", String::new())] {
        let path = folder.path().join(name);
        fs::write(&path, &text).unwrap();
        let target = StudyFiles::file(path.to_str().unwrap()).unwrap();
        assert_eq!(target, StudyFiles::Rows(path.clone()));
        RowsFile::open(&target, true).unwrap().append(&row()).unwrap();
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            text + &rows::written(&row()) + "\n",
            "rows are only ever added"
        );
    }
}

#[test]
fn an_output_that_names_nothing_or_a_report_or_a_folder_is_refused() {
    let folder = tempdir().unwrap();
    let said = |output: &str| StudyFiles::file(output).unwrap_err().to_string();
    assert_eq!(said(""), "--output: wanted a file of rows (*.jsonl) or -, found an empty name");
    let there = folder.path().join("table.csv");
    fs::write(&there, "").unwrap();
    for (out, found) in [
        ("no/such/figures.csv", "rows are written in one format only"),
        (there.to_str().unwrap(), "an empty file that is not named as rows are"),
    ] {
        let said = said(out);
        assert!(said.starts_with(&format!("--output {out}: {found}: ")), "{said}");
        assert!(said.contains("allocanary report ROWS --format csv"), "{said}");
    }
    let there = folder.path().to_str().unwrap();
    assert!(said(there).starts_with(&format!("--output {there}: is a folder: ")), "{}", said(there));
    assert_eq!(StudyFiles::file("-").unwrap(), StudyFiles::Stdout);
}

#[test]
fn a_folder_for_results_is_no_file_and_has_no_name_of_one() {
    let folder = tempdir().unwrap();
    let said = |path: &Path| StudyFiles::folder(path).unwrap_err().to_string();
    assert_eq!(said(Path::new("")), "--out-dir: wanted a folder, found an empty name");
    let there = folder.path().join("rows");
    fs::write(&there, "").unwrap();
    for (path, found) in [(&*there, "a file"), (Path::new("no/such/rows.jsonl"), "the name of a file")] {
        let wanted = format!("--out-dir {}: wanted a folder, found {found}: --output FILE ", path.display());
        assert!(said(path).starts_with(&wanted), "{}", said(path));
    }
    for path in [folder.path(), Path::new("no/such/folder"), Path::new("jemalloc-5.3")] {
        assert_eq!(StudyFiles::folder(path).unwrap(), StudyFiles::Folder(path.into()));
    }
}

#[test]
fn two_studies_never_write_into_one_file() {
    let folder = tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for target in [StudyFiles::Folder(path("out")), StudyFiles::Rows(path("rows.jsonl"))] {
        let mut first = RowsFile::open(&target, false).unwrap();
        first.append(&row()).unwrap();
        let wanted = format!(
            "{}: another allocanary is writing rows there: wait until it has ended, or name another {}",
            target.name(),
            target.flag()
        );
        assert_eq!([false, true].map(|resume| refused(&target, resume)), [wanted.clone(), wanted]);
        // A lock goes with its process, and with its store.
        drop(first);
        let after = refused(&target, false);
        assert!(after.contains("holds rows already: add --resume"), "{after}");
        RowsFile::open(&target, true).unwrap();
    }
}

#[test]
fn rows_that_are_moved_or_removed_are_noticed_and_can_still_be_read() {
    let folder = tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    for (target, moved, rows_there) in [
        (StudyFiles::Folder(folder.join("out")), "moved", "moved/samples.jsonl"),
        (StudyFiles::Rows(folder.join("rows.jsonl")), "moved.jsonl", "moved.jsonl"),
    ] {
        let begun = folder.join(target.name());
        let mut store = RowsFile::open(&target, false).unwrap();
        store.append(&row()).unwrap();
        assert!(store.left().is_none());
        fs::rename(&begun, folder.join(moved)).unwrap();
        assert!(matches!(store.append(&row()), Err(Error::Gone(_))), "the study ends");
        let left = store.left().unwrap();
        assert_eq!((left.moved_to.clone(), left.text().unwrap().lines().count()), (Some(folder.join(rows_there)), 2));

        let there = folder.join(moved);
        if there.is_dir() { fs::remove_dir_all(there) } else { fs::remove_file(there) }.unwrap();
        assert!(matches!(store.append(&row()), Err(Error::Gone(_))));
        let left = store.left().unwrap();
        assert_eq!((left.moved_to.clone(), left.text().unwrap().lines().count()), (None, 3), "no row is lost");
        assert!(!begun.exists(), "what the user removed is not made again");
    }
}
