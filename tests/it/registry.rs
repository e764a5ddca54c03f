//! The command's lists and its output formats, as golden files, so that every change is visible and intended.

use std::fs;
use std::path::Path;

use tempfile::tempdir;

use super::bounded::Bounded;
use super::support::{Ran, TINY, allocanary, assert_golden, command, golden_path, samples, words};

fn out(line: &str) -> String {
    let ran = allocanary(Path::new("/"), words(line));
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{line}");
    ran.out
}

#[test]
fn what_there_is_to_choose_from() {
    for what in ["workloads", "meters", "metrics", "studies"] {
        assert_golden(&format!("list-{what}.txt"), &at(80, &format!("list {what}")));
    }
}

/// The first screen is a summary; the long list comes after it.
#[test]
fn plan_and_list_begin_with_a_summary_of_ten_lines() {
    for what in ["", "allocators", "settings", "workloads", "meters", "metrics", "studies", "formats"] {
        let out = at(80, &format!("list {what}"));
        let summary: Vec<&str> = out.lines().take_while(|line| !line.is_empty()).collect();
        assert!((2..=10).contains(&summary.len()) && out.lines().count() > summary.len() + 3, "{what}: {out}");
        assert!(summary.iter().all(|line| line.chars().count() <= 80), "{what}: {summary:?}");
        if !what.is_empty() {
            assert!(summary[0].starts_with(&format!("{what}, used in: ")), "{summary:?}");
        }
    }
    let all = at(80, "list");
    let summary: Vec<&str> = all.lines().take_while(|line| !line.is_empty()).collect();
    for name in [
        "jemalloc, mimalloc, system",
        "of jemalloc",
        "server, handoff",
        "resident, ",
        "default, cores",
        "table, markdown, csv, html, json",
    ] {
        assert!(summary.iter().any(|line| line.contains(name)), "{name}: {summary:?}");
    }
    for study in ["", "cores", "cases", "workloads", "--candidates system --threads 1,2 --emulate-cpus 4,8"] {
        let out = at(80, &format!("study --plan {study}"));
        let (summary, list) = out.split_once("\n\n").unwrap();
        assert!(summary.lines().count() <= 10, "{study}: {summary}");
        assert!(summary.lines().all(|line| line.chars().count() <= 80), "{study}: {summary}");
        let cells = list.matches(", repeat ").count();
        assert!(summary.contains(&format!("{cells} processes")) && summary.contains(", about "), "{study}: {summary}");
        assert!(!summary.contains(", repeat "), "{study}: {summary}");
    }
}

/// Defaults depend on the host, and versions on the lock file; names do not.
#[test]
fn every_setting_by_name() {
    let list = at(80, "list settings");
    let names: Vec<&str> = list.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let names: Vec<&str> = names.into_iter().filter(|name| name.contains(':')).collect();
    assert_golden("settings.txt", &(names.join("\n") + "\n"));
}

#[test]
fn reports_of_the_golden_rows() {
    let rows = golden_path("rows.jsonl");
    for (format, ending) in [("table", "txt"), ("markdown", "md"), ("csv", "csv"), ("json", "json")] {
        let report = out(&format!("report {} --format {format}", rows.display()));
        assert_golden(&format!("report.{ending}"), &report);
    }
    // On a terminal of 80 columns: a line for each candidate. And all columns there.
    for (columns, name) in [
        ("", "report-80.txt"),
        ("--metrics all", "report-80-all.txt"),
        ("--metrics peak_resident,p99,faults", "report-80-some.txt"),
    ] {
        let report = at(80, &format!("report {} {columns}", rows.display()));
        assert_golden(name, &report);
        // A failure stays on one line, so that it can be searched for. A line to paste is never wrapped.
        let wrapped = report.lines().filter(|line| !line.starts_with("failed: ") && !line.starts_with("  "));
        let widest = wrapped.map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= 80, "{name}: {widest}");
    }
}

/// The output of a command on a terminal of so many columns.
fn at(columns: u16, line: &str) -> String {
    let mut command = command(Path::new("/"));
    let ran: Ran = command.env("COLUMNS", columns.to_string()).args(words(line)).finish().unwrap().into();
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{line}");
    ran.out
}

/// A comparison of the golden rows with themselves, in each format.
#[test]
fn comparisons_of_the_golden_rows() {
    let rows = golden_path("rows.jsonl").display().to_string();
    for (format, ending) in [("table", "txt"), ("markdown", "md"), ("json", "json"), ("github", "github")] {
        let compared = at(80, &format!("compare {rows} {rows} --format {format}"));
        assert_golden(&format!("compare.{ending}"), &compared);
    }
    let brief = at(80, &format!("compare {rows} {rows} --short"));
    assert!(brief.lines().count() <= 10 && brief.starts_with("Nothing "), "{brief}");
}

/// A row is written again with every field that was read.
#[test]
fn a_row_keeps_its_fields() {
    let row = samples(&golden_path("sample.jsonl")).remove(0);
    assert_eq!((row.schema, row.cell.candidate.to_string().as_str()), (1, "jemalloc:narenas=2"));
    let kept: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(golden_path("sample.jsonl")).unwrap()).unwrap();
    assert_eq!(serde_json::to_value(&row).unwrap(), kept);
}

/// A report needs the study's question and figures, and shows the rows without them if the study file is not valid.
#[test]
fn a_report_takes_the_study_beside_the_rows_and_says_if_it_cannot() {
    let folder = tempdir().unwrap();
    let study = format!(
        "name = 'beside'\nquestion = 'Which is least?'\ncandidates = ['system']\nworkloads = ['{TINY}']\nthreads = [1]\nrepeats = 1\n\n\
         [[published]]\nby = 'Somebody, 1999'\nwhat = 'one operation'\nfigure = '7 ns'\n"
    );
    fs::write(folder.path().join("own.toml"), &study).unwrap();
    let run = |line: &str| allocanary(folder.path(), words(line));
    let ran = run("study own.toml --out-dir out");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let report = run("report out");
    assert_eq!((report.code, report.err.as_str(), &report.out), (Some(0), "", &ran.out));
    assert!(report.out.contains("Which is least?") && report.out.contains("Somebody, 1999"), "{}", report.out);

    fs::write(folder.path().join("out/study.toml"), study.replace("[[published]]", "[[publisht]]")).unwrap();
    let report = run("report out");
    assert!(report.code == Some(0) && report.out.starts_with("beside\n\n"), "{report:?}");
    assert!(report.err.contains("study.toml: line 8: `[[publisht]]`: unknown field `publisht`"), "{}", report.err);
    assert!(report.err.contains("shown without the study's question"), "{}", report.err);
}

#[test]
fn help_fits_a_terminal_and_shows_examples() {
    let help = out("-h");
    let listed = help.split_once("Look at a process:\n").expect("the list of verbs").1;
    let (groups, more) = listed.split_once("More verbs: ").expect("the other verbs");
    let groups = groups.lines().filter(|line| line.starts_with("  ")).filter_map(|line| line.split_whitespace().next());
    let verbs: Vec<&str> = groups.chain(more.lines().next().unwrap_or_default().split_whitespace()).collect();
    assert!(verbs.len() > 15 && verbs.contains(&"give-back"), "{verbs:?}");
    for verb in std::iter::once("").chain(verbs) {
        for flag in ["-h", "--help"] {
            let help = out(&format!("{verb} {flag}"));
            let long: Vec<&str> = help.lines().filter(|line| line.chars().count() > 80).collect();
            assert!(long.is_empty(), "{verb} {flag}: {long:#?}");
            let has_examples = help.contains("Examples:\n  allocanary");
            // The first help of the command is full with its verbs.
            assert!(has_examples || (verb, flag) == ("", "-h"), "{verb} {flag}: {help}");
        }
    }
}

/// `help glossary` prints the words too: a user who does not know a word may type this.
#[test]
fn the_words_are_explained_in_the_terminal() {
    let words = out("glossary");
    assert!(words.starts_with("Words:\n") && words.contains("\n  undecided     neither "), "{words}");
    assert!(out("help glossary").contains(words.trim_end()));
    assert!(words.lines().all(|line| line.chars().count() <= 100), "{words}");
}

#[test]
fn completions_and_the_manual_are_written() {
    assert!(out("completions bash").contains("--candidates"));
    assert!(out("man").starts_with(".ie"), "roff");
}
