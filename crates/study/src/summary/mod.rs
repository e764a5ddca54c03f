//! Summaries: rows become medians with intervals, and verdicts. In: samples, one at a time. Out: [`Findings`], from
//! which every report starts.

mod conditions;
mod fold;
mod metrics;
mod noise;
mod panel;
mod ranks;
mod retries;
mod section;
#[cfg(test)]
mod simulation;
pub mod stats;
mod verdict;

pub use conditions::{Conditions, differences, differing};
pub use fold::{Fold, Group, Key};
pub use metrics::{ALL as METRICS, Better, Metric, find as find_metric, index as metric_index};
pub use noise::Noise;
pub use ranks::LEAST_SAMPLES;
pub use section::{About, Section};
pub use verdict::{Comparison, MARGIN, Verdict, compare_groups};

use std::collections::BTreeMap;

use allocanary_cell::provenance::Provenance;
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
    /// What a reader has to know of the rows: which were read twice, how busy the machine was.
    pub notes: Vec<String>,
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
    /// The same in each metric that its study wants shown, and in what less memory may cost.
    pub in_metrics: BTreeMap<&'static str, Vec<(usize, usize, Comparison)>>,
}

impl Panel {
    /// Every other candidate against the first in a metric that has verdicts, by line and column.
    pub fn comparisons_in(&self, metric: &str) -> impl Iterator<Item = &(usize, usize, Comparison)> {
        let all = if metric == "rss" { Some(&self.comparisons) } else { self.in_metrics.get(metric) };
        all.into_iter().flatten()
    }

    /// A candidate against the first in resident memory, in what it may cost, or in a metric that the study wants shown.
    pub fn comparison(&self, metric: &str, line: usize, column: usize) -> Option<&Comparison> {
        let found = self.comparisons_in(metric).find(|(at, at_column, _)| (*at, *at_column) == (line, column));
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

    /// How many samples it has: those of the metric that has most.
    pub fn n(&self) -> usize {
        self.estimates.iter().flatten().map(|estimate| estimate.n).max().unwrap_or(0)
    }
}

/// A median with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// How many samples.
    pub n: usize,
    /// Their median.
    pub median: f64,
    /// The interval's lower bound; the median below five samples.
    pub low: f64,
    /// The interval's upper bound; the median below five samples.
    pub high: f64,
    /// The spread of single samples: half the distance between the quartiles.
    pub spread: f64,
}

impl Estimate {
    /// Of some samples; none where there are none.
    pub fn of(values: &[f64]) -> Option<Estimate> {
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let bounds = stats::median_interval(&sorted, BOOTSTRAP_SEED)?;
        let quartile = |q| stats::quantile(&sorted, q);
        let spread = (quartile(0.75)? - quartile(0.25)?) / 2.0;
        let median = quartile(0.5)?;
        let (low, high) = if sorted.len() < LEAST_SAMPLES { (median, median) } else { bounds };
        Some(Estimate { n: sorted.len(), median, low, high, spread })
    }

    /// The bounds of the interval; none below five samples, which tell too little for one.
    pub fn interval(&self) -> Option<(f64, f64)> {
        (self.n >= LEAST_SAMPLES).then_some((self.low, self.high))
    }
}

/// The metrics that less memory may be bought with: every panel has verdicts in them.
pub const PRICE: [&str; 3] = ["throughput", "p99", "cpu"];

/// Fixed, so that the same rows give the same report.
const BOOTSTRAP_SEED: u64 = 2018;

impl Findings {
    /// From all rows that were folded. `about` knows the studies by the names in the rows; rows without one are of a
    /// study that has no name.
    pub fn of(mut fold: Fold, about: impl Fn(Option<&str>) -> About) -> Findings {
        fold.settle();
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
            Section { name: study.map(str::to_string), about, panels, unfinished: fold.unfinished(study) }
        };
        Findings {
            sections: studies.into_iter().map(|(_, study)| section(study)).collect(),
            rows: fold.rows,
            failures: fold.failures.iter().map(|((what, why), count)| (what.clone(), why.clone(), *count)).collect(),
            problems: Vec::new(),
            notes: notes(&fold),
            unproven: fold.unproven.into_iter().collect(),
            provenance: fold.provenance,
        }
    }
}

/// What a reader has to know of some rows before any figure is believed.
pub fn notes(fold: &Fold) -> Vec<String> {
    let mut notes = Vec::new();
    match fold.repeated {
        0 => {}
        1 => notes.push("1 row was read twice and counts once".to_string()),
        count => notes.push(format!("{count} rows were read again and count once")),
    }
    for (package, builds) in fold.builds().into_iter().filter(|(_, builds)| builds.len() > 1) {
        let builds: Vec<&str> = builds.into_iter().collect();
        notes.push(format!("rows of {} builds of {package} are pooled: {}", builds.len(), builds.join(", ")));
    }
    notes.extend(fold.noise.warnings());
    notes
}
