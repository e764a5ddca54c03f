//! Reports and comparisons of rows that are made here: which rows are trusted, and what the reports say. No process is
//! started.

mod files;
mod program;
mod trust;

use std::path::{Path, PathBuf};

use allocanary_measure::metrics::{Metric, Metrics};
use allocanary_measure::rows;
use allocanary_measure::summary::{Findings, Fold, Judgement, MetricLimit, Side, StudyNotes};
use allocanary_rows::error::Result;
use allocanary_rows::sample::{Failure, FailureKind, Sample};
use allocanary_text::outside::TerminalStyle;

use super::{comparison, find};

const LOOK: TerminalStyle = TerminalStyle { color: false, width: 120 };

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(name)
}

/// The rows of some files, and the lines that are no rows.
fn read(files: &[PathBuf]) -> Result<(Vec<Sample>, Vec<String>)> {
    let mut samples = Vec::new();
    let problems = rows::read(files, |sample| {
        samples.push(sample);
        Ok(())
    })?;
    Ok((samples, problems))
}

/// The golden rows, each changed by `change`. Rows for which it returns false are left out.
fn changed(change: impl FnMut(&mut Sample) -> bool) -> Vec<Sample> {
    let (mut rows, _) = read(&[golden("rows.jsonl")]).unwrap();
    rows.retain_mut(change);
    rows
}

/// The golden rows, and the same rows with a change.
fn pair(change: impl FnMut(&mut Sample) -> bool) -> (Vec<Sample>, Vec<Sample>) {
    (changed(|_| true), changed(change))
}

fn killed() -> Failure {
    Failure { kind: FailureKind::Crashed, text: "killed".into() }
}

fn findings(rows: &[Sample]) -> Findings {
    let mut fold = Fold::default();
    rows.iter().try_for_each(|row| fold.add(row)).unwrap();
    Findings::of(fold, |_, _| StudyNotes::default())
}

/// The rows as a report of that format.
fn report(rows: &[Sample], format: &str) -> String {
    (find(format).unwrap().render)(&findings(rows), &LOOK)
}

/// The words of a text, separated by single spaces. The reports themselves break sentences at the terminal's width.
fn unbroken(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn side(name: &str, rows: &[Sample], metrics: &Metrics) -> Result<Side> {
    let mut fold = Fold::knowing(metrics);
    rows.iter().try_for_each(|row| fold.add(row))?;
    Side::of(name, fold)
}

/// Compares old rows with new ones, in some metrics and under some gates; with neither, in resident memory.
fn judged(old: &[Sample], new: &[Sample], metrics: &[&str], gates: &[(&str, f64)]) -> Result<Judgement> {
    let old = side("old", old, &Metrics::default())?;
    let new = side("new", new, old.metrics())?;
    let known = new.metrics();
    let gates =
        gates.iter().map(|(name, most)| MetricLimit::new(known, name, *most)).collect::<Result<Vec<MetricLimit>>>()?;
    let metrics = metrics.iter().map(|name| known.wanted(name).cloned()).collect::<Result<Vec<Metric>>>()?;
    Judgement::of(&old, &new, metrics, &gates)
}

/// The output of `compare` for two sides.
fn compared(judgement: &Judgement) -> String {
    comparison::render(&judgement.compared, &LOOK)
}
