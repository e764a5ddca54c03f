//! Compares an exhaustive sweep with the race, for built-in workloads. It takes about twenty minutes, so it runs only
//! on request:
//!
//! `cargo test --release --features prometheus,leaks --test it -- --ignored --nocapture sweep`

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use allocanary_measure::metrics::metric_of_all;
use allocanary_measure::summary::stats::median;
use allocanary_rows::sample::Sample;
use allocanary_study::session::StudyFile;
use tempfile::tempdir;

use super::support::{Ran, allocanary, samples, words};

/// The sizes of churn's default need 4 GiB.
const WORKLOADS: [&str; 10] = [
    "server",
    "storm",
    "handoff",
    "bleed",
    "small",
    "wakes",
    "blob",
    "list",
    "sort",
    "churn:high=256MiB,low=16MiB,chunk=512KiB",
];
/// Processor time is limited, because a busy machine moves it least.
const CPU: f64 = 1.2;

fn middle(rows: &[Sample], candidate: &str, metric: &str) -> f64 {
    let metric = metric_of_all(metric);
    let values: Vec<f64> =
        rows.iter().filter(|row| row.cell.candidate == candidate.into()).filter_map(|row| metric.of(row)).collect();
    median(&values).unwrap_or(f64::NAN)
}

fn timed(folder: &Path, line: &str) -> (Ran, Duration) {
    let started = Instant::now();
    let ran = allocanary(folder, words(line));
    assert_eq!(ran.code, Some(0), "{line}: {ran:?}");
    (ran, started.elapsed())
}

fn mebibytes(bytes: f64) -> String {
    format!("{:.1}", bytes / f64::from(1 << 20))
}

#[test]
#[ignore = "takes about twenty minutes"]
fn a_sweep_of_all_candidates_finds_little_that_the_race_does_not() {
    println!("| workload | what you have | race | MiB | rows | s | sweep | MiB | rows | s |");
    println!("|---|--:|---|--:|--:|--:|---|--:|--:|--:|");
    let mut worse = Vec::new();
    for workload in WORKLOADS {
        let folder = tempdir().unwrap();
        let folder = folder.path();
        let line =
            format!("tune --workloads {workload} --threads 16 --present jemalloc --tolerance cpu=20% --out-dir race");
        let (_, raced) = timed(folder, &line);
        let race = samples(&folder.join("race"));
        let tuned = std::fs::read_to_string(folder.join("race/tuned.toml")).unwrap();
        let found = StudyFile::parse("tuned.toml", &tuned).unwrap().candidates.unwrap().pop().unwrap();

        let first = |row: &&Sample| row.cell.study.as_deref() == Some("tune-race-1");
        let all: BTreeSet<String> = race.iter().filter(first).map(|row| row.cell.candidate.to_string()).collect();
        let names = all.iter().map(String::as_str).collect::<Vec<_>>().join(" ");
        // The race's answer is swept too: it may have a setting of the second stage.
        let line = format!(
            "study --workloads {workload} --threads 16 --repeats 10 --out-dir sweep --candidates {names} {found}"
        );
        let (_, swept) = timed(folder, &line);
        let sweep = samples(&folder.join("sweep"));
        let most = CPU * middle(&sweep, "jemalloc", "cpu");
        let within = all.iter().filter(|name| middle(&sweep, name, "cpu") <= most);
        let best = within.min_by(|a, b| middle(&sweep, a, "resident").total_cmp(&middle(&sweep, b, "resident")));
        let best = best.expect("jemalloc is within its own limit");
        let of = |name: &str| middle(&sweep, name, "resident");
        println!(
            "| `{workload}` | {} | `{found}` | {} | {} | {:.0} | `{best}` | {} | {} | {:.0} |",
            mebibytes(of("jemalloc")),
            mebibytes(of(&found)),
            race.len(),
            raced.as_secs_f64(),
            mebibytes(of(best)),
            sweep.len(),
            swept.as_secs_f64(),
        );
        if of(&found) > 1.05 * of(best) {
            worse.push(format!("{workload}: {found} {}, {best} {}", mebibytes(of(&found)), mebibytes(of(best))));
        }
    }
    // One may miss: noise can put the best candidate beyond the limit on processor time.
    assert!(worse.len() <= 1, "the race's answer needs 5 % more than the sweep's: {worse:?}");
}
