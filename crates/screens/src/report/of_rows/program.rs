//! Rows of a user's program: its limits, and the figures that the user named.

use std::collections::BTreeMap;
use std::fs;

use allocanary_measure::summary::Judged;
use allocanary_rows::Moment;
use allocanary_rows::error::Error;
use allocanary_rows::job::Job;
use allocanary_rows::program::{Figure, OverTime, Program};
use allocanary_rows::sample::Measured;
use tempfile::tempdir;

use super::*;

/// A row of a program that ended: its peak was 64 MiB, and it took one second.
fn row(candidate: &str, place: u32, repeat: u32) -> Sample {
    let mut sample = read(&[golden("sample.jsonl")]).unwrap().0.remove(0);
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

/// Eight rows with one figure each, all near `value`.
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

/// `own`, and `jemalloc` with half the memory in a tenth more time.
fn smaller_and_slower(within: &[&str]) -> Vec<Sample> {
    let one = |(place, repeat): (u32, u32)| {
        let mut sample = row(["own", "jemalloc"][place as usize], place, repeat);
        let tolerance = within.iter().map(|text| text.to_string()).collect();
        sample.cell.job = Job::of_program(Program { tolerance, ..sample.cell.job.program().unwrap().clone() });
        let answer = sample.measured.as_mut().unwrap();
        if place == 1 {
            answer.active_ns += 100_000_000;
            answer.readings.values_mut().flatten().flatten().for_each(|bytes| *bytes /= 2);
        }
        sample
    };
    (0..2).flat_map(|place| (0..8).map(move |repeat| (place, repeat))).map(one).collect()
}

#[test]
fn the_limits_of_a_run_are_those_of_every_report_of_its_rows() {
    let free = report(&smaller_and_slower(&[]), "table");
    assert!(free.contains("To run with jemalloc (peak_resident -50 % against own):"), "{free}");
    let limited = smaller_and_slower(&["wall=5%"]);
    let backwards: Vec<Sample> = [&limited[5..], &limited[..5]].concat();
    for rows in [limited, backwards] {
        let found = report(&rows, "table");
        assert!(found.contains("Keep own: no candidate is clearly better in peak_resident within wall=5%"), "{found}");
    }
}

#[test]
fn a_limit_of_a_metric_that_no_row_has_is_named() {
    let found = report(&smaller_and_slower(&["p99=20%"]), "table");
    assert!(found.contains("Nothing is proposed: the rows of own have no p99, which is limited."), "{found}");
}

#[test]
fn rows_with_different_limits_keep_to_each() {
    let (wide, narrow) = (smaller_and_slower(&["wall=50%"]), smaller_and_slower(&["wall=5%"]));
    let found = report(&wide, "table");
    assert!(found.contains("To run with jemalloc (peak_resident -50 % against own within wall=50%):"), "{found}");
    let both = report(&[wide, narrow].concat(), "table");
    assert!(both.contains("Keep own: ") && both.contains(" within wall=5%, wall=50%"), "{both}");
}

/// A score of 50 after 100 is better if lower is better, and worse if higher is better. Before this check the first row decided the
/// direction, and a gate passed although the score had halved.
#[test]
fn a_figure_with_another_unit_or_direction_than_before_is_refused() {
    let old = with_figure("score", 100.0, "count", "lower");
    for (unit, better) in [("count", "higher"), ("ns", "lower")] {
        let new = with_figure("score", 50.0, unit, better);
        let mut fold = Fold::default();
        let pooled = old.iter().chain(&new).try_for_each(|row| fold.add(row)).unwrap_err();
        let against = judged(&old, &new, &[], &[("score", 0.05)]).err().unwrap();
        for refused in [pooled.to_string(), against.to_string()] {
            let said = ["`score`".to_string(), "count, lower is better".into(), format!("{unit}, {better} is better")];
            assert!(said.iter().all(|said| refused.contains(said)), "{refused}");
        }
    }
    assert!(judged(&old, &old, &[], &[("score", 0.05)]).unwrap().passes(false));
}

#[test]
fn a_row_with_thousands_of_figures_is_refused_by_its_place() {
    let folder = tempdir().unwrap();
    let mut many = row("own", 0, 0);
    let figure = Figure { value: 1.0, unit: "count".into(), better: "lower".into() };
    many.measured.as_mut().unwrap().figures = (0..20_000).map(|at| (format!("f{at:05}"), figure.clone())).collect();
    let path = folder.path().join("many.jsonl");
    fs::write(&path, rows::written(&many) + "\n").unwrap();
    let mut fold = Fold::default();
    let refused = rows::read(&[path], |sample| fold.add(&sample)).unwrap_err();
    assert!(matches!(refused, Error::Input(_)));
    let refused = refused.to_string();
    for said in ["many.jsonl:1: ", "at most 300 names", "`f00300`"] {
        assert!(refused.contains(said) && refused.lines().count() == 1, "{refused}");
    }
}

#[test]
fn a_figure_that_was_zero_is_told_with_what_it_is() {
    let of = |value: f64| {
        let mut rows = with_figure("errors", value, "count", "lower");
        let figures = rows.iter_mut().filter_map(|row| row.measured.as_mut()?.figures.get_mut("errors"));
        figures.for_each(|figure| figure.value = value);
        rows
    };
    let found = judged(&of(0.0), &of(3.0), &[], &[("errors", 0.05)]).unwrap();
    let (_, one) = found.judged(Judged::Broken).next().unwrap();
    assert_eq!(comparison::found(&one.comparison), "from 0 to 3, n=8");
    let out = compared(&found);
    assert!(out.contains("worse 0 to 3") && !out.contains("[-, -]"), "{out}");
}

/// Under jemalloc the program needs little memory, and every third run fails.
#[test]
fn what_crashes_under_an_allocator_is_not_proposed_however_little_it_needs() {
    let mut rows = smaller_and_slower(&[]);
    let bad = |row: &&mut Sample| row.cell.candidate == "jemalloc".into() && row.cell.repeat % 3 == 2;
    for row in rows.iter_mut().filter(bad) {
        (row.measured, row.error) = (None, Some(killed()));
    }
    let found = report(&rows, "table");
    assert!(found.contains("Keep own:") && !found.contains("To run with jemalloc"), "{found}");
    assert!(unbroken(&found).contains("left out, because more runs failed than of own: jemalloc"), "{found}");
}

#[test]
fn a_crash_counts_for_the_build_that_crashed() {
    let of = |build: &str, failures: u32| {
        let one = |repeat| {
            let mut row = row("own", 0, repeat);
            row.started_ms = u64::from(repeat) + if failures > 0 { 1000 } else { 0 };
            row.builds = [("./program".to_string(), build.to_string())].into();
            if repeat < failures {
                (row.measured, row.error) = (None, Some(killed()));
            }
            row
        };
        (0..9).map(one).collect::<Vec<Sample>>()
    };
    let csv = report(&[of("sound", 0), of("broken", 3)].concat(), "csv");
    let failed = |build: &str| -> Vec<&str> {
        let lines = csv.lines().filter(|line| line.contains(",wall,") && line.contains(build));
        // The last two columns are `failed` and `unproven`.
        lines.map(|line| line.rsplit(',').nth(1).unwrap()).collect()
    };
    assert_eq!((failed("sound"), failed("broken")), (vec!["0"], vec!["3"]), "{csv}");
}
