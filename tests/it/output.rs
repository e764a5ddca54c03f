//! Rows outlive their folder: a study or a search whose folder is moved or removed says where its rows are. Where rows go, and
//! what a resumed study runs, is tested with the store and the session.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use allocanary_rows::sample::Sample;
use tempfile::tempdir;

use super::bounded::Bounded;
use super::support::{Ran, command, samples, words};

/// A study of slow cells, once it has its first row.
fn slow(folder: &Path, out: &str) -> Child {
    let line = format!(
        "study --candidates system --threads 1 --repeats 200 --out-dir {out} \
         --workloads server:settle=300ms,live=64KiB,requests=10,bursts=0"
    );
    begun(folder, &line, out)
}

/// A command that has written its first row to `out`.
fn begun(folder: &Path, line: &str, out: &str) -> Child {
    let child = command(folder).args(words(line)).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let rows = folder.join(out).join("samples.jsonl");
    while fs::read_to_string(&rows).unwrap_or_default().lines().count() < 1 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    child
}

fn ended(child: Child) -> Ran {
    child.finish().unwrap().into()
}

fn rows_on_standard_error(ran: &Ran) -> Vec<Sample> {
    let lines = ran.err.lines().filter(|line| line.starts_with('{'));
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_folder_that_is_removed_loses_no_row() {
    let folder = tempdir().unwrap();
    let child = slow(folder.path(), "out");
    fs::remove_dir_all(folder.path().join("out")).unwrap();
    let ran = ended(child);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    let rows = rows_on_standard_error(&ran);
    assert!((2..200).contains(&rows.len()), "noticed before the end: {}", rows.len());
    assert!(ran.out.contains(&format!("{} rows; medians", rows.len())), "the report is printed: {}", ran.out);
    let last = BufReader::new(ran.err.as_bytes()).lines().last().unwrap().unwrap();
    assert!(last.starts_with("allocanary: out: was removed while the study ran"), "{last}");
    assert!(!folder.path().join("out").exists(), "what the user removed is not made again");
}

#[test]
fn a_folder_that_is_moved_is_told_and_goes_on_there() {
    let folder = tempdir().unwrap();
    let child = slow(folder.path(), "out");
    let to: PathBuf = folder.path().canonicalize().unwrap().join("moved");
    fs::rename(folder.path().join("out"), &to).unwrap();
    let ran = ended(child);
    assert_eq!((ran.code, rows_on_standard_error(&ran).len()), (Some(2), 0), "{ran:?}");
    let rows = samples(&to);
    assert!(ran.out.contains(&format!("{} rows; medians", rows.len())), "the report is printed: {}", ran.out);
    let said = format!(
        "allocanary: out: was moved while the study ran, so the study ended: its rows are in {}/samples.jsonl; \
         `allocanary study --resume --out-dir {}` continues it",
        to.display(),
        to.display()
    );
    assert!(ran.err.contains(&said), "wanted {said} in {}", ran.err);
}

#[test]
fn a_search_whose_folder_is_removed_or_moved_loses_no_row() {
    let folder = tempdir().unwrap();
    let search =
        || begun(folder.path(), "tune --out-dir out --candidates system --time-budget 60s -- sleep 0.3", "out");
    let child = search();
    fs::remove_dir_all(folder.path().join("out")).unwrap();
    let ran = ended(child);
    assert!(ran.code == Some(2) && rows_on_standard_error(&ran).len() >= 2, "{ran:?}");
    let last = ran.err.lines().last().unwrap();
    assert!(last.starts_with("allocanary: out: was removed while the search ran"), "{last}");

    let child = search();
    let to: PathBuf = folder.path().canonicalize().unwrap().join("moved");
    fs::rename(folder.path().join("out"), &to).unwrap();
    let ran = ended(child);
    assert!(ran.code == Some(2) && rows_on_standard_error(&ran).is_empty() && samples(&to).len() >= 2, "{ran:?}");
    let said = format!(
        "allocanary: out: was moved while the search ran, so the search ended: its rows are in {}/samples.jsonl; \
         go on with `allocanary tune ",
        to.display()
    );
    assert!(ran.err.contains(&said), "wanted {said} in {}", ran.err);
    assert!(ran.err.contains(&format!(" --resume --out-dir {} -- ", to.display())), "{}", ran.err);
}
