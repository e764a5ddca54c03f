//! One study's part of the findings: its question, the published figures, the metrics to show, and its panels.

use serde::{Deserialize, Serialize};

use super::{GroupComparison, Panel};
use crate::metrics::Metric;
use allocanary_rows::error::{Error, Result};
use allocanary_text::outside::in_one_line;

/// One study's findings.
#[derive(Debug, Default)]
pub struct StudySection {
    /// The name in its rows, if they have one.
    pub name: Option<String>,
    /// The content of its file that a report shows.
    pub about: StudyNotes,
    /// One panel for each workload and axis.
    pub panels: Vec<Panel>,
    /// How much worse a proposed candidate may be than the first, as shares, by metric. The limits of all rows count together.
    pub within: Vec<(String, f64)>,
    /// Hosts with fewer rows than planned cells: the host, the number of cells with rows, and the planned number.
    pub unfinished: Vec<(String, usize, usize)>,
}

/// Content of a study's file that rows do not have.
#[derive(Clone, Default)]
pub struct StudyNotes {
    /// The question that the study answers; empty if unknown.
    pub question: String,
    /// Figures that others have published.
    pub published: Vec<Published>,
    /// The metrics of its table. If there are none, each panel shows resident memory and the other metrics.
    pub metrics: Vec<Metric>,
    /// The answer of a search, if there is one. Then a report does not give its own.
    pub decided: Option<Decided>,
}

/// A figure that somebody else has published.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// Who and when: `Dgraph, 2020`.
    pub by: String,
    /// What was measured: `one cgo calloc per node, 2M nodes`.
    pub what: String,
    /// The result: `5.29 s user`.
    pub figure: String,
}

impl Published {
    /// The same, with each text in one line and without characters that control a terminal.
    pub fn harmless(&self) -> Published {
        Published { by: in_one_line(&self.by), what: in_one_line(&self.what), figure: in_one_line(&self.figure) }
    }
}

/// The answer of a search.
#[derive(Clone, Default)]
pub struct Decided {
    /// The answer in words.
    pub text: String,
    /// The lines to paste.
    pub lines: Vec<String>,
    /// What it chose. `None` if only the words are known.
    pub chosen: Option<Chosen>,
}

/// What a search chose.
#[derive(Clone)]
pub struct Chosen {
    /// The candidate to use. It is what the user has, if nothing is proven to be better.
    pub candidate: String,
    /// What the user has.
    pub against: String,
    /// The metric that was to be reduced.
    pub metric: Metric,
    /// The candidate's figure in this metric.
    pub figure: Option<f64>,
    /// The comparison with what the user has. `None` if the candidate is what the user has.
    pub saving: Option<GroupComparison>,
    /// The comparisons in what it may cost, by metric.
    pub cost: Vec<(String, GroupComparison)>,
    /// The limits of the cost, as shares.
    pub within: Vec<(String, f64)>,
}

impl StudySection {
    /// Whether it is about the user's program.
    pub fn is_program(&self) -> bool {
        let mut points = self.panels.iter().flat_map(|panel| panel.lines.iter().flat_map(|line| line.points.iter()));
        points.any(|point| point.as_ref().is_some_and(|point| point.over_time.is_some()))
    }
}

/// Reads a limit of a program: `wall=5%`.
pub fn limit(text: &str) -> Result<(String, f64)> {
    let wrong = || Error::Input(format!("tolerance: wanted METRIC=PERCENT such as wall=5%, found `{text}`"));
    let (name, share) = metric_percent(text).ok_or_else(wrong)?;
    Ok((name.to_string(), share))
}

/// A metric's name and a share, from `wall=5%`: `("wall", 0.05)`. `None` if the text has another form, or the percentage is not from 0 to
/// 10,000.
pub fn metric_percent(text: &str) -> Option<(&str, f64)> {
    let (name, share) = text.split_once('=')?;
    let percent: f64 = share.trim().trim_end_matches('%').trim().parse().ok()?;
    (0.0..=10_000.0).contains(&percent).then(|| (name.trim(), percent / 100.0))
}

impl std::fmt::Debug for StudyNotes {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let metrics: Vec<&str> = self.metrics.iter().map(|metric| &*metric.name).collect();
        write!(out, "{}: {metrics:?}", self.question)
    }
}
