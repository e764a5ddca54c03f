//! Where rows go: what is not ours is left alone, two studies never share a file, a resumed study is the one that was
//! begun, and rows outlive their folder.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use allocanary_cell::sample::Sample;
use tempfile::{TempDir, tempdir};

use super::fake;
use super::support::{Ran, TINY, allocanary, command, golden_path, samples, script, study, words};

fn refused(ran: &Ran, said: &[&str]) {
    assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{ran:?}");
    for said in said {
        assert!(ran.err.contains(said), "wanted `{said}` in {}", ran.err);
    }
    assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
}

fn run(folder: &Path, line: &str) -> Ran {
    allocanary(folder, words(line))
}

#[test]
fn a_file_that_is_not_ours_is_never_written_to() {
    let folder = tempdir().unwrap();
    for (name, text) in [
        ("passwd", "root:x:0:0:root:/root:/bin/bash\n"),
        ("config", "{\"a\":1}"),
        ("notes.jsonl", "{\"event\":1}\n{\"event\":2}\n"),
        ("table.csv", ""),
    ] {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        for resume in ["", " --resume"] {
            let line =
                format!("study --candidates system --threads 1 --repeats 1 --workloads {TINY} --out {name}{resume}");
            let ran = run(folder.path(), &line);
            refused(&ran, &[name, "name "]);
            assert!(!ran.err.contains("--resume"), "no advice that would write to it: {}", ran.err);
            assert_eq!(fs::read_to_string(&path).unwrap(), text, "{name}{resume}");
        }
    }
    // Our rows may have any name, and a file may be there before its first row.
    let line = format!("study --candidates system --threads 1 --repeats 1 --workloads {TINY} --resume --out");
    fs::copy(golden_path("rows.jsonl"), folder.path().join("rows")).unwrap();
    assert!(run(folder.path(), &format!("{line} rows")).err.contains("rows of another study"));
    fs::write(folder.path().join("empty.jsonl"), "").unwrap();
    assert_eq!(run(folder.path(), &format!("{line} empty.jsonl")).code, Some(0));
}

#[test]
fn a_folder_with_files_of_the_user_is_left_alone() {
    let folder = tempdir().unwrap();
    let text = format!("# Ours.\ncandidates = ['system']\nworkloads = ['{TINY}']\nthreads = [1]\nrepeats = 1\n");
    for (name, text) in [("study.toml", text.as_str()), ("report.html", "<p>mine</p>")] {
        let place = folder.path().join(name.replace('.', "-"));
        fs::create_dir(&place).unwrap();
        fs::write(place.join(name), text).unwrap();
        let flags = format!("study --candidates system --threads 1 --repeats 2 --workloads {TINY} --out .");
        refused(&run(&place, &flags), &[name, "would be overwritten: name another --out"]);
        assert_eq!(fs::read_to_string(place.join(name)).unwrap(), text);
        assert_eq!(fs::read_dir(&place).unwrap().count(), 1, "nothing else is left there");
    }
    // The very study that lies there may be run there, and stays as it was written.
    let place = folder.path().join("study-toml");
    assert_eq!(run(&place, "study study.toml --out .").code, Some(0));
    assert_eq!(fs::read_to_string(place.join("study.toml")).unwrap(), text);
}

#[test]
fn an_out_that_names_nothing_or_a_report_is_refused() {
    let folder = tempdir().unwrap();
    let flags = words("study --candidates system --threads 1 --repeats 1 --out");
    let with = |out: &str| allocanary(folder.path(), flags.iter().copied().chain([out]));
    refused(&with(""), &["--out: wanted a folder, a file of rows (*.jsonl) or -, found an empty name"]);
    refused(&with("figures.csv"), &["--out figures.csv: ", "allocanary report ROWS --format csv"]);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
}

/// A study of slow cells, once it has its first row.
fn slow(folder: &Path, out: &str) -> Child {
    let line = format!(
        "study --candidates system --threads 1 --repeats 200 --out {out} \
         --workloads server:idle=300,live=64KiB,requests=10,bursts=0"
    );
    begun(folder, &line, out)
}

/// A command that has written its first row to `out`.
fn begun(folder: &Path, line: &str, out: &str) -> Child {
    let child = command(folder).args(words(line)).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let rows = if out.ends_with(".jsonl") { folder.join(out) } else { folder.join(out).join("samples.jsonl") };
    while fs::read_to_string(&rows).unwrap_or_default().lines().count() < 1 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    child
}

fn stop(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn two_studies_never_write_into_one_file() {
    let folder = tempdir().unwrap();
    for out in ["out", "rows.jsonl"] {
        let first = slow(folder.path(), out);
        let line = format!("study --candidates system --threads 1 --repeats 1 --workloads {TINY} --out {out}");
        let said = format!("{out}: another allocanary is writing rows there: wait until it has ended, or name another");
        for resume in ["", " --resume"] {
            refused(&run(folder.path(), &format!("{line}{resume}")), &[&said]);
        }
        stop(first);
        // A lock goes with its process, and with a child that was just forked.
        let mut ran = run(folder.path(), &line);
        while ran.err.contains("another allocanary") {
            ran = run(folder.path(), &line);
        }
        assert!(ran.err.contains("holds rows already"), "{ran:?}");
    }
}

#[test]
fn another_study_or_another_build_is_not_resumed() {
    let folder = tempdir().unwrap();
    let line = format!("study --threads 1 --repeats 2 --workloads {TINY} --candidates system jemalloc --out");
    assert_eq!(run(folder.path(), &format!("{line} out")).code, Some(0));
    assert_eq!(run(folder.path(), &format!("{line} rows.jsonl")).code, Some(0));
    let before = [fs::read(folder.path().join("out/study.toml")), fs::read(folder.path().join("out/samples.jsonl"))];
    for (flags, said) in [
        ("--seed 2", "seed: wanted 1, found 2"),
        ("--repeats 1", "repeats: wanted 2 or more, found 1"),
        ("--candidates system", "candidates: wanted `jemalloc` among them, found `system`"),
        ("--threads 2", "threads and cores: wanted `1 threads` among them, found `2 threads`"),
        ("--workloads small", "workloads: wanted `small:idle=1,live=64,operations=1000` among them, found `small`"),
    ] {
        let ran = run(folder.path(), &format!("study --resume --out out {flags}"));
        refused(&ran, &["--resume: out/study.toml: the rows there are of another study: ", said]);
    }
    let other = line.replace("--candidates", "--seed 5 --candidates");
    refused(
        &run(folder.path(), &format!("{other} rows.jsonl --resume")),
        &["--resume: rows.jsonl: has rows of another study, such as ", "wanted seed ", "name another --out"],
    );
    let after = [fs::read(folder.path().join("out/study.toml")), fs::read(folder.path().join("out/samples.jsonl"))];
    assert_eq!(before.map(Result::unwrap), after.map(Result::unwrap), "nothing was changed");

    let id = samples(&folder.path().join("out"))[0].provenance.build.id.clone();
    for rows in ["out/samples.jsonl", "rows.jsonl"] {
        let path = folder.path().join(rows);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replacen(&id, "0123456789abcdef", 1)).unwrap();
    }
    for line in ["study --resume --out out".into(), format!("{line} rows.jsonl --resume")] {
        let ran = run(folder.path(), &line);
        refused(&ran, &["has rows of another build: wanted ", &id, "found ", "0123456789abcdef", "name another --out"]);
    }
}

/// A folder with a cell of which one candidate fails until a file is gone.
fn failing() -> TempDir {
    let folder = fake::folder();
    let cell = folder.path().join("cell-fake");
    let text = fs::read_to_string(&cell).unwrap();
    // What fails in this mode fails as long as a file is there.
    let exit = "exit) echo 'no luck today' >&2; exit 3 ;;";
    assert!(text.contains(exit));
    script(&cell, &text.replace(exit, "exit) [ -e broken ] && { echo 'no luck today' >&2; exit 3; } ;;"));
    fs::write(folder.path().join("broken"), "").unwrap();
    folder
}

#[test]
fn failed_cells_are_tried_again_and_count_once() {
    let folder = failing();
    let flags = "--cells . --workloads work --repeats 3 --candidates fake fake:mode=exit fake:mode=signal";
    let ran = study(folder.path(), flags);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert_eq!(ran.out.matches("3 failed").count(), 2, "{}", ran.out);
    let before = fs::read_to_string(folder.path().join("out/samples.jsonl")).unwrap();

    fs::remove_file(folder.path().join("broken")).unwrap();
    let resume = "study --resume --cells . --out out";
    let ran = run(folder.path(), resume);
    assert_eq!(ran.code, Some(1), "the others still fail: {ran:?}");
    assert!(ran.out.contains("9 rows; medians"), "{}", ran.out);
    assert_eq!(ran.out.matches("failed: fake:mode=signal").count(), 1, "{}", ran.out);
    assert!(!ran.out.contains("failed: fake:mode=exit"), "the old failures are gone: {}", ran.out);
    assert_eq!(ran.out.matches("3 failed").count(), 1, "{}", ran.out);

    let text = fs::read_to_string(folder.path().join("out/samples.jsonl")).unwrap();
    assert!(text.starts_with(&before), "rows are only ever added");
    let rows = samples(&folder.path().join("out"));
    let mut by_mode: BTreeMap<String, Vec<&Sample>> = BTreeMap::new();
    for row in &rows {
        by_mode.entry(row.cell.candidate.to_string()).or_default().push(row);
    }
    assert_eq!(by_mode.values().map(Vec::len).collect::<Vec<_>>(), [3, 6, 6]);
    assert!(by_mode["fake:mode=exit"][3..].iter().all(|row| row.error.is_none() && row.replaces.is_some()));

    // In any order of rows, and however often a cell is tried.
    let ran = run(folder.path(), resume);
    assert!(ran.out.contains("9 rows; medians") && ran.out.matches("3 failed").count() == 1, "{}", ran.out);
    let csv = |file: &str| run(folder.path(), &format!("report {file} --format csv")).out;
    let text = fs::read_to_string(folder.path().join("out/samples.jsonl")).unwrap();
    let backwards: Vec<&str> = text.lines().rev().collect();
    fs::write(folder.path().join("backwards.jsonl"), backwards.join("\n") + "\n").unwrap();
    fs::write(folder.path().join("forwards.jsonl"), &text).unwrap();
    assert_eq!(csv("backwards.jsonl"), csv("forwards.jsonl"));
    assert!(csv("forwards.jsonl").contains("\nwork,fake:mode=exit,1.2,threads,1,rss,bytes,3,42991616,"));
}

fn ended(child: Child) -> Ran {
    child.wait_with_output().unwrap().into()
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
         `allocanary study --resume --out {}` continues it",
        to.display(),
        to.display()
    );
    assert!(ran.err.contains(&said), "wanted {said} in {}", ran.err);
}

#[test]
fn a_search_whose_folder_is_removed_or_moved_loses_no_row() {
    let folder = tempdir().unwrap();
    let search = || begun(folder.path(), "tune --out out --allocators system --budget 60s -- sleep 0.3", "out");
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
         add --resume --out {} to the same command, before `--`, to go on",
        to.display(),
        to.display()
    );
    assert!(ran.err.contains(&said), "wanted {said} in {}", ran.err);
}

#[test]
fn a_file_of_rows_that_is_moved_or_removed_loses_no_row() {
    let folder = tempdir().unwrap();
    let child = slow(folder.path(), "rows.jsonl");
    fs::remove_file(folder.path().join("rows.jsonl")).unwrap();
    let ran = ended(child);
    let rows = rows_on_standard_error(&ran);
    assert!(ran.code == Some(2) && (2..200).contains(&rows.len()), "{} rows: {}", rows.len(), ran.err);
    let last = ran.err.lines().last().unwrap();
    assert!(last.starts_with("allocanary: rows.jsonl: was removed while the study ran"), "{last}");

    let child = slow(folder.path(), "again.jsonl");
    fs::rename(folder.path().join("again.jsonl"), folder.path().join("moved.jsonl")).unwrap();
    let ran = ended(child);
    assert_eq!((ran.code, rows_on_standard_error(&ran).len()), (Some(2), 0), "{ran:?}");
    let rows = samples(&folder.path().join("moved.jsonl"));
    assert!(ran.out.contains(&format!("{} rows; medians", rows.len())), "the report is printed: {}", ran.out);
    assert!(
        ran.err.contains("again.jsonl: was moved while the study ran") && ran.err.contains("moved.jsonl"),
        "{}",
        ran.err
    );
}
