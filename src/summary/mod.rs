//! Summaries: rows become medians with intervals, and verdicts. In: samples, one at a time. Out: [`Findings`], from
//! which every report starts.

mod fold;
mod metrics;
pub mod stats;
mod verdict;

pub use fold::{Fold, Group, Key};
pub use metrics::{ALL as METRICS, Better, Metric, find as find_metric, index as metric_index};
pub use verdict::{Comparison, Verdict, compare_groups};

use std::collections::{BTreeMap, BTreeSet};

use crate::provenance::Provenance;

/// All that a report can say.
#[derive(Debug, Default)]
pub struct Findings {
    /// The study's question, where it is known.
    pub question: String,
    /// A table for each workload and axis.
    pub panels: Vec<Panel>,
    /// How many rows were read.
    pub rows: usize,
    /// What failed: candidate and cell, the reason, how often.
    pub failures: Vec<(String, String, usize)>,
    /// Lines that were no rows, and other things to know.
    pub problems: Vec<String>,
    /// Every build and host that measured.
    pub provenance: Vec<Provenance>,
}

/// One workload under growing threads or cores.
#[derive(Debug)]
pub struct Panel {
    /// `server`, or `server, 8 threads` where the cores grow under fixed threads.
    pub title: String,
    /// What grows.
    pub axis: Axis,
    /// Its values, in order.
    pub columns: Vec<u32>,
    /// A line for each candidate, in the order in which the study names them.
    pub lines: Vec<Line>,
    /// Every other candidate against the first, by line and column.
    pub comparisons: Vec<(usize, usize, Comparison)>,
}

/// What grows from column to column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Axis {
    /// Worker threads.
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
    /// From all rows that were folded.
    pub fn of(fold: Fold) -> Findings {
        let mut places: BTreeMap<PanelKey, u32> = BTreeMap::new();
        for (key, group) in &fold.groups {
            let place = places.entry(panel_key(key, &fold)).or_insert(group.place);
            *place = group.place.min(*place);
        }
        let mut keys: Vec<(u32, PanelKey)> = places.into_iter().map(|(key, place)| (place, key)).collect();
        keys.sort();
        Findings {
            question: String::new(),
            panels: keys.iter().map(|(_, key)| panel(key, &fold)).collect(),
            rows: fold.rows,
            failures: fold.failures.iter().map(|((what, why), count)| (what.clone(), why.clone(), *count)).collect(),
            problems: Vec::new(),
            provenance: fold.provenance,
        }
    }
}

/// What one panel holds apart from its columns and lines.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct PanelKey {
    workload: String,
    axis: Axis,
    /// Where the cores grow while the threads stay: how many threads.
    threads: Option<u32>,
    /// Where rows of unlike hosts are reported together: the host's own cores.
    host_cores: Option<u32>,
}

fn panel_key(key: &Key, fold: &Fold) -> PanelKey {
    PanelKey {
        workload: key.workload.clone(),
        axis: if key.cores.is_some() { Axis::Cores } else { Axis::Threads },
        threads: key.cores.filter(|_| threads_are_fixed(key, fold)).map(|_| key.threads),
        host_cores: fold.has_unlike_hosts().then_some(key.host_cores),
    }
}

/// Whether the threads stay while the cores grow. The pair of 8 threads and 8 cores alone does not tell.
fn threads_are_fixed(key: &Key, fold: &Fold) -> bool {
    let other_cores = |other: &Key| {
        other.cores.is_some()
            && (&other.workload, other.threads) == (&key.workload, key.threads)
            && other.cores != key.cores
    };
    key.cores != Some(key.threads) || fold.groups.keys().any(other_cores)
}

fn panel(wanted: &PanelKey, fold: &Fold) -> Panel {
    let groups: Vec<(&Key, &Group)> = fold.groups.iter().filter(|(key, _)| panel_key(key, fold) == *wanted).collect();
    let column = |key: &Key| key.cores.unwrap_or(key.threads);
    let columns: BTreeSet<u32> = groups.iter().map(|(key, _)| column(key)).collect();
    let columns: Vec<u32> = columns.into_iter().collect();
    let mut places: BTreeMap<&str, u32> = BTreeMap::new();
    for (key, group) in &groups {
        let place = places.entry(&key.candidate).or_insert(group.place);
        *place = group.place.min(*place);
    }
    let mut candidates: Vec<(u32, &str)> = places.into_iter().map(|(candidate, place)| (place, candidate)).collect();
    candidates.sort_unstable();

    let group = |candidate: &str, at: u32| {
        groups.iter().find(|(key, _)| key.candidate == candidate && column(key) == at).map(|(_, group)| *group)
    };
    let lines: Vec<Line> = candidates
        .iter()
        .map(|(_, candidate)| {
            let groups: Vec<Option<&Group>> = columns.iter().map(|at| group(candidate, *at)).collect();
            let version =
                groups.iter().flatten().map(|group| group.version.as_str()).find(|version| !version.is_empty());
            Line {
                candidate: candidate.to_string(),
                version: version.unwrap_or("unknown").to_string(),
                points: groups.into_iter().map(|group| group.map(point)).collect(),
            }
        })
        .collect();

    let mut pairs = Vec::new();
    for (line, (_, candidate)) in candidates.iter().enumerate().skip(1) {
        for (at, column) in columns.iter().enumerate() {
            if let Some(pair) = group(candidates[0].1, *column).zip(group(candidate, *column)) {
                pairs.push((line, at, pair));
            }
        }
    }
    let compared = compare_groups(pairs.iter().map(|(_, _, pair)| *pair), &METRICS[metric_index("rss")]);
    let comparisons = pairs.iter().zip(compared).map(|((line, at, _), found)| (*line, *at, found)).collect();

    let mut title = wanted.workload.clone();
    if let Some(threads) = wanted.threads {
        title.push_str(&format!(", {threads} threads"));
    }
    if let Some(cores) = wanted.host_cores {
        title.push_str(&format!(", on hosts with {cores} cores"));
    }
    Panel { title, axis: wanted.axis, columns, lines, comparisons }
}

fn point(group: &Group) -> Point {
    let estimates = group.values.iter().map(|values| Estimate::of(values)).collect();
    Point { estimates, failed: group.failed }
}
