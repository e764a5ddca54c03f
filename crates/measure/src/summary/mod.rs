//! Summaries: rows become medians with intervals, and verdicts. In: samples, one at a time. Out: [`Findings`], the
//! input of every report.

mod agreement;
pub mod anatomy;
mod conditions;
mod digest;
mod fold;
mod front;
mod gate;
mod judgement;
mod noise;
mod normal;
mod panel;
mod quantiles;
mod ranks;
mod recommendation;
mod retries;
mod section;
mod side;
#[cfg(test)]
mod simulation;
pub mod stats;
mod tail;
mod unlike;
mod verdict;

pub use agreement::Agreement;
pub use anatomy::Anatomy;
pub use conditions::{Conditions, differences, differing};
pub use fold::{CellKey, CellRepeats, Fold};
pub use front::front;
pub use gate::{Judged, MetricLimit};
pub use judgement::{Judgement, RowComparison};
pub use noise::Noise;
pub use ranks::{LEAST_SAMPLES, MISSES, difference_interval, ratio_interval};
pub use recommendation::{COST_TOLERANCE, Recommendation, RecommendedStep};
pub use section::{Chosen, Decided, Published, StudyNotes, StudySection, limit, metric_percent};
pub use side::Side;
pub use tail::Tail;
pub use verdict::{GroupComparison, MARGIN, Verdict, compare_groups};

use std::collections::BTreeMap;

use crate::metrics::{Metric, MetricName, Metrics, metric_of_all};
use allocanary_rows::Candidate;
use allocanary_rows::program::OverTime;
use allocanary_rows::provenance::Provenance;
use allocanary_rows::version::Version;
use panel::{panel, panel_key};

/// All data of a report.
#[derive(Debug, Default)]
pub struct Findings {
    /// A section for each study.
    pub sections: Vec<StudySection>,
    /// The metrics that the rows can have.
    pub metrics: Metrics,
    /// Number of rows, without duplicates.
    pub rows: usize,
    /// Failures: candidate and cell, the reason, how often.
    pub failures: Vec<(String, String, usize)>,
    /// Lines that were not valid rows, and other problems.
    pub problems: Vec<String>,
    /// What a reader must know about the rows: how many were read twice, how busy the machine was.
    pub notes: Vec<String>,
    /// Settings whose effect could not be shown: the candidate, the setting and the reason.
    pub unproven: Vec<(Candidate, String, String)>,
    /// Every build and host that measured.
    pub provenance: Vec<Provenance>,
    /// When the first and the last cell started, in milliseconds since 1970.
    pub started_ms: Option<(u64, u64)>,
    /// The commands that measured the rows. Each is listed once.
    pub commands: Vec<String>,
}

/// One workload at increasing numbers of threads or cores.
#[derive(Debug, Default)]
pub struct Panel {
    /// `server`, or `server, 8 threads` if the cores increase and the threads are fixed.
    pub title: String,
    /// What increases from column to column.
    pub axis: Axis,
    /// Its values, in order.
    pub columns: Vec<u32>,
    /// One line for each candidate, in the order of the study.
    pub lines: Vec<CandidatePoints>,
    /// Every other candidate compared with the first in resident memory when idle, by line and column.
    pub comparisons: Vec<(usize, usize, GroupComparison)>,
    /// The same comparisons in each metric of its study, and in the metrics of [`COST`].
    pub in_metrics: BTreeMap<MetricName, Vec<(usize, usize, GroupComparison)>>,
    /// The lines with verdicts whose repeats did not alternate with those of the first line.
    pub apart: Vec<usize>,
}

impl Panel {
    /// Every other candidate compared with the first in a metric that has verdicts, by line and column.
    pub fn comparisons_in(&self, metric: &str) -> impl Iterator<Item = &(usize, usize, GroupComparison)> {
        let all = if metric == "resident" { Some(&self.comparisons) } else { self.in_metrics.get(metric) };
        all.into_iter().flatten()
    }

    /// A candidate compared with the first in resident memory, in a metric of [`COST`], or in a metric of the study.
    pub fn comparison(&self, metric: &str, line: usize, column: usize) -> Option<&GroupComparison> {
        let found = self.comparisons_in(metric).find(|(at, at_column, _)| (*at, *at_column) == (line, column));
        found.map(|(_, _, comparison)| comparison)
    }

    /// Whether a candidate failed more often than the first. Its figures are only those of successful runs, so they are no reason to choose
    /// it.
    pub fn fails_more(&self, line: usize, column: usize) -> bool {
        let failed = |line: &CandidatePoints| {
            line.points
                .get(column)
                .and_then(Option::as_ref)
                .map_or((0, 0), |point| (point.failed, point.failed + point.n()))
        };
        fold::fails_more(failed(&self.lines[line]), failed(&self.lines[0]))
    }
}

/// What increases from column to column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Axis {
    /// Worker threads.
    #[default]
    Threads,
    /// Emulated cores.
    Cores,
    /// Nothing: a program runs as it is.
    Program,
}

impl Axis {
    /// Its name in a table's header.
    pub const fn name(self) -> &'static str {
        match self {
            Axis::Threads => "threads",
            Axis::Cores => "cores",
            Axis::Program => "program",
        }
    }
}

/// One candidate.
#[derive(Debug)]
pub struct CandidatePoints {
    /// The candidate.
    pub candidate: Candidate,
    /// What ran.
    pub version: Version,
    /// Whether the panel has the candidate in other versions too: its name then says the version.
    pub of_several_versions: bool,
    /// The results at each column.
    pub points: Vec<Option<Point>>,
}

impl CandidatePoints {
    /// `jemalloc:narenas=1`, or `jemalloc (5.3.1)` next to other versions.
    pub fn name(&self) -> String {
        let CandidatePoints { candidate, version, .. } = self;
        if self.of_several_versions { format!("{candidate} ({version})") } else { candidate.to_string() }
    }
}

/// One candidate at one column: an estimate for each metric that has one.
#[derive(Debug)]
pub struct Point {
    /// By metric.
    pub estimates: BTreeMap<MetricName, MedianEstimate>,
    /// Number of failed cells.
    pub failed: usize,
    /// Where the memory of the middle process is, if rows say it.
    pub anatomy: Option<Anatomy>,
    /// The resident memory over time of a program, of the repeat with the median peak.
    pub over_time: Option<OverTime>,
    /// The variables that a program got: how it is run with this candidate.
    pub environment: BTreeMap<String, String>,
}

impl Point {
    /// The estimate of the metric of that name.
    pub fn get(&self, metric: &str) -> Option<&MedianEstimate> {
        self.estimates.get(metric)
    }

    /// Number of samples: that of the metric with the most samples.
    pub fn n(&self) -> usize {
        self.estimates.values().map(|estimate| estimate.n).max().unwrap_or(0)
    }
}

/// A median with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MedianEstimate {
    /// Number of samples.
    pub n: usize,
    /// Their median.
    pub median: f64,
    /// The interval's lower bound. With fewer than five samples it is the median.
    pub low: f64,
    /// The interval's upper bound. With fewer than five samples it is the median.
    pub high: f64,
    /// The spread of single samples: half the distance between the quartiles.
    pub spread: f64,
}

impl MedianEstimate {
    /// The estimate of some samples; `None` if there are no samples.
    pub fn of(values: &[f64]) -> Option<MedianEstimate> {
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let bounds = stats::median_interval(&sorted, BOOTSTRAP_SEED)?;
        let quartile = |q| stats::quantile(&sorted, q);
        let spread = (quartile(0.75)? - quartile(0.25)?) / 2.0;
        let median = quartile(0.5)?;
        let (low, high) = if sorted.len() < LEAST_SAMPLES { (median, median) } else { bounds };
        Some(MedianEstimate { n: sorted.len(), median, low, high, spread })
    }

    /// The bounds of the interval; `None` for fewer than five samples, which are too few for an interval.
    pub fn interval(&self) -> Option<(f64, f64)> {
        (self.n >= LEAST_SAMPLES).then_some((self.low, self.high))
    }
}

/// The metrics that may get worse when less memory is used. Every panel has verdicts in them.
pub const COST: [&str; 3] = ["throughput", "p99", "cpu"];

/// A fixed seed, so that the same rows give the same report.
const BOOTSTRAP_SEED: u64 = 2018;

impl Findings {
    /// The findings of all folded rows. `about` returns what is known of a study, by its name in the rows and the rows' metrics. Rows
    /// without a name belong to the study without a name.
    pub fn of(mut fold: Fold, about: impl Fn(Option<&str>, &Metrics) -> StudyNotes) -> Findings {
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
        let mut notes = notes(&fold);
        let mut section = |study: Option<&str>| {
            let mut about = about(study, &fold.metrics);
            let within = limits(&fold, study, &mut notes);
            if about.metrics.is_empty() {
                about.metrics = program_metrics(&fold, study);
            }
            for metric in within.iter().filter_map(|(name, _)| fold.metrics.find(name)) {
                if !about.metrics.iter().any(|known| known.name == metric.name) {
                    about.metrics.push(metric.clone());
                }
            }
            let keys = keys.iter().filter(|(_, key)| key.study.as_deref() == study);
            let panels = keys.map(|(_, key)| panel(key, &fold, &about.metrics)).collect();
            StudySection { name: study.map(str::to_string), about, panels, within, unfinished: fold.unfinished(study) }
        };
        let sections = studies.into_iter().map(|(_, study)| section(study)).collect();
        Findings {
            sections,
            metrics: fold.metrics,
            rows: fold.rows,
            failures: fold.failures.iter().map(|((what, why), count)| (what.clone(), why.clone(), *count)).collect(),
            problems: Vec::new(),
            notes,
            unproven: fold.unproven.into_iter().collect(),
            provenance: fold.provenance,
            started_ms: fold.started_ms,
            commands: fold.commands.into_iter().collect(),
        }
    }
}

/// The limits in the rows of a study. A text that is not a valid limit becomes a note.
fn limits(fold: &Fold, study: Option<&str>, notes: &mut Vec<String>) -> Vec<(String, f64)> {
    let mut within = Vec::new();
    let lists = fold.limits.iter().filter(|(name, _)| name.as_deref() == study).flat_map(|(_, lists)| lists);
    for text in lists.flatten() {
        match limit(text) {
            Ok(limit) if within.contains(&limit) => {}
            Ok(limit) => within.push(limit),
            Err(error) => notes.push(format!("a row's limit does not count: {error}")),
        }
    }
    within
}

/// The metrics of a study of the user's program: those that the user named, and those that every program has. None for a
/// study of our workloads.
fn program_metrics(fold: &Fold, study: Option<&str>) -> Vec<Metric> {
    let groups = || fold.groups.iter().filter(|(key, _)| key.study.as_deref() == study && key.threads.is_none());
    let has = |metric: &&Metric| groups().any(|(_, group)| !group.values_of(&metric.name).is_empty());
    let service = groups().any(|(_, group)| !group.values_of("resident").is_empty());
    let usual: &[&str] = match service {
        true => &["resident", "peak_resident", "throughput", "p50", "p99", "p999"],
        false => &["peak_resident", "wall", "cpu", "faults"],
    };
    let end: &[&str] = if service { &["cpu"] } else { &[] };
    let [usual, end] = [usual, end].map(|names| names.iter().map(|name| metric_of_all(name)));
    usual.chain(fold.metrics.named()).chain(end).filter(has).cloned().collect()
}

/// What a reader must know about the rows before the figures can be trusted.
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
    if fold.peaks_unknown > 0 {
        let rows = if fold.peaks_unknown == 1 { "1 row" } else { &format!("{} rows", fold.peaks_unknown) };
        notes.push(format!(
            "the peak of {rows} is not known: the program ended within milliseconds, before it could be sampled, and another run of it could \
             not be traced"
        ));
    }
    notes.extend(fold.noise.warnings());
    notes
}
