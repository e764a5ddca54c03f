//! A gate on a figure that the user named. Reports of such rows are tested with the reports.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Stdio;

use allocanary_rows::Moment;
use allocanary_rows::job::Job;
use allocanary_rows::program::{Figure, OverTime, Program};
use allocanary_rows::sample::{Measured, Sample};
use tempfile::tempdir;

use super::bounded::Bounded;
use super::support::{Ran, command, golden_path, samples, words};

/// A row of a program that ended: 64 MiB at its most, in one second.
fn row(candidate: &str, place: u32, repeat: u32) -> Sample {
    let mut sample = samples(&golden_path("sample.jsonl")).remove(0);
    let cell = &mut sample.cell;
    (cell.candidate, cell.allocator) = (candidate.into(), candidate.into());
    (cell.cores, cell.place, cell.repeat) = (None, place, repeat);
    cell.settings = BTreeMap::new();
    cell.job = Job::of_program(Program { command: vec!["job".into()], ..Program::default() });
    let peak = (64 << 20) + u64::from(repeat) * 4096;
    sample.measured = Some(Measured {
        version: "1".into(),
        moments: vec![Moment::Start, Moment::Peak],
        requested_bytes: vec![0, 0],
        readings: BTreeMap::from([("peak_resident_bytes".to_string(), vec![Some(4096), Some(peak)])]),
        active_ns: 1_000_000_000 + u64::from(repeat) * 100_000,
        over_time: Some(OverTime { every_us: 1000, resident_kib: vec![peak >> 10] }),
        ..Measured::default()
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
        sample.measured.as_mut().unwrap().figures.insert(name.into(), figure);
        sample
    };
    (0..8).map(one).collect()
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
        let ran: Ran = compare.stdin(cat.stdout.take().unwrap()).finish().unwrap().into();
        cat.wait().unwrap();
        assert_eq!(ran.code, Some(code), "{ran:?}");
    }
}
