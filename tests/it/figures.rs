//! Rows of a user's program that are read again: its limits, and the figures that the user named.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Stdio;

use allocanary_cell::job::Job;
use allocanary_cell::program::{Figure, OverTime, Program};
use allocanary_cell::sample::{Answer, Sample};
use allocanary_cell::workload::Phase;
use tempfile::tempdir;

use super::support::{Ran, allocanary, command, golden_path, samples, words};

/// A row of a program that ended: 64 MiB at its most, in one second.
fn row(candidate: &str, place: u32, repeat: u32) -> Sample {
    let mut sample = samples(&golden_path("sample-v1.jsonl")).remove(0);
    let cell = &mut sample.cell;
    (cell.candidate, cell.allocator) = (candidate.into(), candidate.into());
    (cell.cores, cell.place, cell.repeat) = (None, place, repeat);
    cell.settings = BTreeMap::new();
    cell.job = Job::of_program(Program { command: vec!["job".into()], ..Program::default() });
    let peak = (64 << 20) + u64::from(repeat) * 4096;
    sample.answer = Some(Answer {
        version: "1".into(),
        phases: vec![Phase::Start, Phase::Peak],
        live_bytes: vec![0, 0],
        readings: BTreeMap::from([("peak_rss_bytes".to_string(), vec![Some(4096), Some(peak)])]),
        active_ns: 1_000_000_000 + u64::from(repeat) * 100_000,
        over_time: Some(OverTime { every_us: 1000, rss_kib: vec![peak >> 10] }),
        ..Answer::default()
    });
    sample
}

fn write(path: &Path, rows: impl IntoIterator<Item = Sample>) {
    let lines = rows.into_iter().map(|row| serde_json::to_string(&row).unwrap() + "\n");
    fs::write(path, lines.collect::<String>()).unwrap();
}

/// Eight rows that have one figure: about `value`.
fn with_figure(name: &str, value: f64, unit: &str, better: &str) -> Vec<Sample> {
    let one = |repeat| {
        let mut sample = row("own", 0, repeat);
        let value = value + f64::from(repeat) * 0.001;
        let figure = Figure { value, unit: unit.into(), better: better.into() };
        sample.answer.as_mut().unwrap().figures.insert(name.into(), figure);
        sample
    };
    (0..8).map(one).collect()
}

/// `own`, and `jemalloc` with half the memory in a tenth more time.
fn smaller_and_slower(within: &[&str]) -> Vec<Sample> {
    let one = |(place, repeat): (u32, u32)| {
        let mut sample = row(["own", "jemalloc"][place as usize], place, repeat);
        let within = within.iter().map(|text| text.to_string()).collect();
        sample.cell.job = Job::of_program(Program { within, ..sample.cell.job.program().unwrap().clone() });
        let answer = sample.answer.as_mut().unwrap();
        if place == 1 {
            answer.active_ns += 100_000_000;
            answer.readings.values_mut().flatten().flatten().for_each(|bytes| *bytes /= 2);
        }
        sample
    };
    (0..2).flat_map(|place| (0..8).map(move |repeat| (place, repeat))).map(one).collect()
}

fn report(folder: &Path, files: &str) -> Ran {
    allocanary(folder, words("report").into_iter().chain(words(files)))
}

#[test]
fn the_limits_of_a_run_are_those_of_every_report_of_its_rows() {
    let folder = tempdir().unwrap();
    let free = smaller_and_slower(&[]);
    write(&folder.path().join("free.jsonl"), free);
    let ran = report(folder.path(), "free.jsonl");
    assert!(ran.out.contains("To run with jemalloc (peak -50 % against own):"), "{ran:?}");
    let limited = smaller_and_slower(&["wall=5%"]);
    write(&folder.path().join("all.jsonl"), limited.clone());
    write(&folder.path().join("a.jsonl"), limited[..5].to_vec());
    write(&folder.path().join("b.jsonl"), limited[5..].to_vec());
    for files in ["all.jsonl", "a.jsonl b.jsonl", "b.jsonl a.jsonl"] {
        let ran = report(folder.path(), files);
        let wanted = "Keep own: no candidate is surely better in peak within wall=5%";
        assert!(ran.code == Some(0) && ran.out.contains(wanted), "{files}: {ran:?}");
    }
}

#[test]
fn a_limit_of_a_metric_that_no_row_has_is_named() {
    let folder = tempdir().unwrap();
    write(&folder.path().join("rows.jsonl"), smaller_and_slower(&["p99=20%"]));
    let ran = report(folder.path(), "rows.jsonl");
    assert!(ran.out.contains("Nothing is proposed: the rows of own have no p99, which is limited."), "{ran:?}");
}

#[test]
fn rows_with_different_limits_keep_to_each() {
    let folder = tempdir().unwrap();
    write(&folder.path().join("wide.jsonl"), smaller_and_slower(&["wall=50%"]));
    write(&folder.path().join("narrow.jsonl"), smaller_and_slower(&["wall=5%"]));
    let wide = report(folder.path(), "wide.jsonl");
    assert!(wide.out.contains("To run with jemalloc (peak -50 % against own within wall=50%):"), "{wide:?}");
    let both = report(folder.path(), "wide.jsonl narrow.jsonl");
    assert!(both.out.contains("Keep own: ") && both.out.contains(" within wall=5%, wall=50%"), "{both:?}");
}

/// The first row decided what 100 and 50 mean: half the score was "better", and the gate passed.
#[test]
fn a_figure_with_another_unit_or_direction_than_before_is_refused() {
    let folder = tempdir().unwrap();
    for (old, new, said) in [
        (("count", "lower"), ("count", "higher"), "count, lower is better"),
        (("count", "lower"), ("ns", "lower"), "ns, lower is better"),
    ] {
        write(&folder.path().join("old.jsonl"), with_figure("score", 100.0, old.0, old.1));
        write(&folder.path().join("new.jsonl"), with_figure("score", 50.0, new.0, new.1));
        for line in ["compare old.jsonl new.jsonl --gate score=5%", "report old.jsonl new.jsonl"] {
            let ran = allocanary(folder.path(), words(line));
            assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{line}: {ran:?}");
            let named = ran.err.contains("new.jsonl:1: ") && ran.err.contains("`score`");
            let new = format!("{}, {} is better", new.0, new.1);
            assert!(named && ran.err.contains(said) && ran.err.contains(&new), "{line}: {}", ran.err);
        }
        let ran = allocanary(folder.path(), words("compare old.jsonl old.jsonl --gate score=5%"));
        assert_eq!(ran.code, Some(0), "{ran:?}");
    }
}

/// A pipe can be read once: `compare <(zcat a.gz) <(zcat b.gz)`.
#[test]
fn a_gate_on_a_users_metric_reads_a_pipe() {
    let folder = tempdir().unwrap();
    write(&folder.path().join("old.jsonl"), with_figure("qps", 100.0, "1/s", "higher"));
    for (now, code) in [(100.0, 0), (50.0, 1)] {
        write(&folder.path().join("new.jsonl"), with_figure("qps", now, "1/s", "higher"));
        let mut compare = command(folder.path());
        compare.args(words("compare old.jsonl /dev/stdin --gate qps=5%"));
        let mut cat = std::process::Command::new("cat");
        let mut cat = cat.arg(folder.path().join("new.jsonl")).stdout(Stdio::piped()).spawn().unwrap();
        let ran: Ran = compare.stdin(cat.stdout.take().unwrap()).output().unwrap().into();
        cat.wait().unwrap();
        assert_eq!(ran.code, Some(code), "{ran:?}");
    }
}

#[test]
fn rows_with_thousands_of_figures_are_refused_in_one_line() {
    let folder = tempdir().unwrap();
    let mut many = row("own", 0, 0);
    let figure = Figure { value: 1.0, unit: "count".into(), better: "lower".into() };
    many.answer.as_mut().unwrap().figures = (0..20_000).map(|at| (format!("f{at:05}"), figure.clone())).collect();
    write(&folder.path().join("many.jsonl"), [many]);
    let ran = report(folder.path(), "many.jsonl");
    assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{}", ran.err);
    assert!(ran.err.contains("many.jsonl:1: ") && ran.err.lines().count() == 1, "{}", ran.err);
    assert!(ran.err.contains("at most 300 names") && ran.err.contains("`f00300`"), "{}", ran.err);
}

#[test]
fn a_figure_that_was_zero_is_told_with_what_it_is() {
    let folder = tempdir().unwrap();
    for (name, value) in [("old.jsonl", 0.0), ("new.jsonl", 3.0)] {
        let mut rows = with_figure("errors", value, "count", "lower");
        let figures = rows.iter_mut().filter_map(|row| row.answer.as_mut()?.figures.get_mut("errors"));
        figures.for_each(|figure| figure.value = value);
        write(&folder.path().join(name), rows);
    }
    let ran = allocanary(folder.path(), words("compare old.jsonl new.jsonl --gate errors=5%"));
    assert!(ran.code == Some(1) && ran.err.contains(": from 0 to 3, n=8, and the gate is 5 %"), "{ran:?}");
    assert!(ran.out.contains("worse 0 to 3") && !ran.out.contains("[-, -]"), "{ran:?}");
}
