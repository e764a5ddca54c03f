//! Summaries: rows become medians with intervals, and verdicts. In: samples, one at a time. Out: [`Findings`], from
//! which every report starts.

mod fold;
mod metrics;
mod panel;
mod section;
pub mod stats;
mod verdict;

pub use fold::{Fold, Group, Key};
pub use metrics::{ALL as METRICS, Better, Metric, find as find_metric, index as metric_index};
pub use section::{About, Section};
pub use verdict::{Comparison, Verdict, compare_groups};

use std::collections::BTreeMap;

use crate::provenance::Provenance;
use panel::{panel, panel_key};

/// All that a report can say.
#[derive(Debug, Default)]
pub struct Findings {
    /// A section for each study.
    pub sections: Vec<Section>,
    /// How many rows were read.
    pub rows: usize,
    /// What failed: candidate and cell, the reason, how often.
    pub failures: Vec<(String, String, usize)>,
    /// Lines that were no rows, and other things to know.
    pub problems: Vec<String>,
    /// Settings without an effect that could be shown: the candidate, the setting and the reason.
    pub unproven: Vec<(String, String, String)>,
    /// Every build and host that measured.
    pub provenance: Vec<Provenance>,
}

/// One workload under growing threads or cores.
#[derive(Debug, Default)]
pub struct Panel {
    /// `server`, or `server, 8 threads` where the cores grow under fixed threads.
    pub title: String,
    /// What grows.
    pub axis: Axis,
    /// Its values, in order.
    pub columns: Vec<u32>,
    /// A line for each candidate, in the order in which the study names them.
    pub lines: Vec<Line>,
    /// Every other candidate against the first in resident memory when idle, by line and column.
    pub comparisons: Vec<(usize, usize, Comparison)>,
    /// The same in each metric that its study wants shown.
    pub in_metrics: BTreeMap<&'static str, Vec<(usize, usize, Comparison)>>,
}

impl Panel {
    /// A candidate against the first in one of the metrics that the study wants shown.
    pub fn comparison(&self, metric: &str, line: usize, column: usize) -> Option<&Comparison> {
        let found = self.in_metrics.get(metric)?.iter().find(|(at, at_column, _)| (*at, *at_column) == (line, column));
        found.map(|(_, _, comparison)| comparison)
    }
}

/// What grows from column to column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Axis {
    /// Worker threads.
    #[default]
    Threads,
    /// Emulated cores.
    Cores,
}

impl Axis {
    /// Its name in a table's head.
    pub const fn name(self) -> &'static str {
        match self {
            Axis::Threads => "threads",
            Axis::Cores => "cores",
        }
    }
}

/// One candidate.
#[derive(Debug)]
pub struct Line {
    /// The candidate as it is written.
    pub candidate: String,
    /// The allocator's version.
    pub version: String,
    /// What was found at each column.
    pub points: Vec<Option<Point>>,
}

/// One candidate at one column: a figure for each metric that has one.
#[derive(Debug)]
pub struct Point {
    /// By metric, in the order of [`METRICS`].
    pub estimates: Vec<Option<Estimate>>,
    /// How many cells failed here.
    pub failed: usize,
}

impl Point {
    /// The estimate of the metric of that name.
    pub fn get(&self, metric: &str) -> Option<&Estimate> {
        self.estimates[metric_index(metric)].as_ref()
    }
}

/// A median with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// How many samples.
    pub n: usize,
    /// Their median.
    pub median: f64,
    /// The interval's lower bound.
    pub low: f64,
    /// The interval's upper bound.
    pub high: f64,
    /// The spread of single samples: half the distance between the quartiles.
    pub spread: f64,
}

impl Estimate {
    /// Of some samples; none where there are none.
    pub fn of(values: &[f64]) -> Option<Estimate> {
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let (low, high) = stats::median_interval(&sorted, BOOTSTRAP_SEED)?;
        let quartile = |q| stats::quantile(&sorted, q);
        let spread = (quartile(0.75)? - quartile(0.25)?) / 2.0;
        Some(Estimate { n: sorted.len(), median: quartile(0.5)?, low, high, spread })
    }
}

/// Fixed, so that the same rows give the same report.
const BOOTSTRAP_SEED: u64 = 2018;

impl Findings {
    /// From all rows that were folded. `about` knows the studies by the names in the rows; rows without one are of a
    /// study that has no name.
    pub fn of(fold: Fold, about: impl Fn(Option<&str>) -> About) -> Findings {
        let mut places = BTreeMap::new();
        let mut studies: BTreeMap<Option<&str>, u32> = BTreeMap::new();
        for (key, group) in &fold.groups {
            let place = places.entry(panel_key(key, &fold)).or_insert(group.place);
            *place = group.place.min(*place);
            let first = studies.entry(key.study.as_deref()).or_insert(group.place);
            *first = group.place.min(*first);
        }
        let mut keys: Vec<_> = places.into_iter().map(|(key, place)| (place, key)).collect();
        keys.sort();
        let mut studies: Vec<_> = studies.into_iter().map(|(study, place)| (place, study)).collect();
        studies.sort();
        let section = |study: Option<&str>| {
            let about = about(study);
            let keys = keys.iter().filter(|(_, key)| key.study.as_deref() == study);
            let panels = keys.map(|(_, key)| panel(key, &fold, &about.metrics)).collect();
            Section { name: study.map(str::to_string), about, panels }
        };
        Findings {
            sections: studies.into_iter().map(|(_, study)| section(study)).collect(),
            rows: fold.rows,
            failures: fold.failures.iter().map(|((what, why), count)| (what.clone(), why.clone(), *count)).collect(),
            problems: Vec::new(),
            unproven: fold.unproven.into_iter().collect(),
            provenance: fold.provenance,
        }
    }
}
