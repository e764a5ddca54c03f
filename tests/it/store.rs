//! Measured rows are never lost: with full disks, standard output, Ctrl-C, and studies that are finished later.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use allocanary_rows::sample::Sample;
use tempfile::tempdir;

use super::bounded::Bounded;
use super::fake;
use super::support::{Ran, TINY, allocanary, command, golden_path, samples, script, words};

#[test]
fn a_full_disk_is_named_and_the_row_is_still_said() {
    let folder = tempdir().unwrap();
    let flags = format!("study --candidates system --threads 1 --repeats 2 --output /dev/full --workloads {TINY}");
    let ran = allocanary(folder.path(), words(&flags));
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.err.contains("allocanary: /dev/full: writing a row: No space left on device"), "{}", ran.err);
    let row = ran.err.lines().find(|line| line.starts_with('{')).expect("the row is on standard error");
    let row: Sample = serde_json::from_str(row).unwrap();
    assert_eq!((row.cell.repeat, row.error), (0, None), "the first row, and no second was measured in vain");
    assert_eq!(ran.err.lines().filter(|line| line.starts_with('{')).count(), 1);
}

#[test]
fn a_report_that_cannot_be_written_is_an_error() {
    let folder = tempdir().unwrap();
    let rows = golden_path("rows.jsonl");
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut report = command(folder.path());
    report.arg("report").arg(&rows).stdout(full).stderr(Stdio::piped());
    let ran: Ran = report.spawn().unwrap().finish().unwrap().into();
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.starts_with("allocanary: standard output: writing: No space left"), "{}", ran.err);
    let to = ["report", rows.to_str().unwrap(), "--output", "/dev/full"];
    let ran = allocanary(folder.path(), to);
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.starts_with("allocanary: /dev/full: writing the report: "), "{}", ran.err);
}

#[test]
fn rows_alone_go_to_standard_output() {
    let folder = tempdir().unwrap();
    let flags = format!("study --candidates system jemalloc --threads 1,2 --repeats 2 --output - --workloads {TINY}");
    let ran = allocanary(folder.path(), words(&flags));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let rows: Vec<Sample> = ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 8);
    assert!(rows.iter().all(|row| row.error.is_none()));
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0, "and nowhere else");
}

/// Eight cells of the fake.
const EIGHT: &str =
    "study --cells . --workloads work --candidates fake fake:mode=good --threads 1 --repeats 4 --out-dir out";

/// Interrupts the study of eight cells in the fourth, which does not end until there is a file `go`.
fn interrupt(folder: &Path) -> Ran {
    let cell = folder.join("cell-fake");
    let text = fs::read_to_string(&cell).unwrap();
    assert!(text.contains("cell=$(cat)\n"));
    let count = "cell=$(cat)\necho . >> count\ntest -e go || test $(wc -l < count) -lt 4 || sleep 600\n";
    script(&cell, &text.replace("cell=$(cat)\n", count));
    let child = command(folder).args(words(EIGHT)).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while fs::read_to_string(folder.join("count")).unwrap_or_default().lines().count() < 4 {
        std::thread::sleep(Duration::from_millis(20));
    }
    // SAFETY: sends a signal to a child that nobody has waited for yet, so the number is still its own.
    assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGINT) }, 0);
    child.finish().unwrap().into()
}

fn identities(rows: &[Sample]) -> BTreeSet<String> {
    rows.iter().map(|row| serde_json::to_string(&row.cell).unwrap()).collect()
}

#[test]
fn an_interrupted_study_keeps_its_rows_and_is_finished_later() {
    let folder = fake::folder();
    let ran = interrupt(folder.path());
    assert_eq!(ran.code, Some(130), "{ran:?}");
    let out = folder.path().join("out");
    let kept = samples(&out);
    assert_eq!(kept.len(), 3, "{ran:?}");
    assert!(kept.iter().all(|row| row.error.is_none()), "the cell that was killed is no row");
    assert!(ran.out.contains("3 rows; medians"), "the report is printed: {}", ran.out);
    let unfinished = "The study is not finished: 3 of 8 planned processes have rows.";
    assert!(ran.out.split_whitespace().collect::<Vec<_>>().join(" ").contains(unfinished), "{}", ran.out);
    let hint = "interrupted: 5 processes are left; finish with `allocanary study --resume --out-dir out";
    assert!(ran.err.contains(hint), "{}", ran.err);

    let before = fs::read(out.join("samples.jsonl")).unwrap();
    fs::write(folder.path().join("go"), "").unwrap();
    let ran = allocanary(folder.path(), words("study --resume --cells . --out-dir out"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(fs::read(out.join("samples.jsonl")).unwrap().starts_with(&before), "rows are only ever added");
    let all = samples(&out);
    assert_eq!((all.len(), identities(&all).len()), (8, 8), "the plan, and no cell twice");
    let planned = allocanary(folder.path(), words(&EIGHT.replacen("study", "study --plan", 1)));
    for row in &all {
        assert!(planned.out.contains(&row.cell.title()), "{} was never planned", row.cell.title());
    }
    let ran = allocanary(folder.path(), words("study --resume --cells . --out-dir out"));
    assert_eq!((ran.code, samples(&out).len()), (Some(0), 8), "there is nothing left to do");
}
