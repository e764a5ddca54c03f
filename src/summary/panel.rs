//! One panel: a workload under growing threads or cores. In: the groups of samples that belong together. Out: its columns,
//! lines and verdicts.

use std::collections::{BTreeMap, BTreeSet};

use super::fold::{Fold, Group, Key};
use super::{Axis, Estimate, Line, MARGIN, METRICS, Metric, Panel, Point, compare_groups, metric_index};

/// What one panel holds apart from its columns and lines.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PanelKey {
    /// The study that its rows name.
    pub study: Option<String>,
    workload: String,
    axis: Axis,
    /// Where the cores grow while the threads stay: how many threads.
    threads: Option<u32>,
    /// Where rows of unlike hosts are reported together: the host's own cores.
    host_cores: Option<u32>,
}

/// The panel that a group of samples belongs to.
pub fn panel_key(key: &Key, fold: &Fold) -> PanelKey {
    PanelKey {
        study: key.study.clone(),
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
            && (&other.study, &other.workload, other.threads) == (&key.study, &key.workload, key.threads)
            && other.cores != key.cores
    };
    key.cores != Some(key.threads) || fold.groups.keys().any(other_cores)
}

/// A panel of the rows that have its key, with verdicts in resident memory and in each of `metrics`.
pub fn panel(wanted: &PanelKey, fold: &Fold, metrics: &[&'static Metric]) -> Panel {
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
    let compared = |metric: &Metric| {
        let found = compare_groups(pairs.iter().map(|(_, _, pair)| *pair), metric, MARGIN);
        pairs.iter().zip(found).map(|((line, at, _), found)| (*line, *at, found)).collect()
    };
    let comparisons = compared(&METRICS[metric_index("rss")]);
    let in_metrics = metrics.iter().map(|metric| (metric.name, compared(metric))).collect();

    let mut title = wanted.workload.clone();
    if let Some(threads) = wanted.threads {
        title.push_str(&format!(", {threads} threads"));
    }
    if let Some(cores) = wanted.host_cores {
        title.push_str(&format!(", on hosts with {cores} cores"));
    }
    Panel { title, axis: wanted.axis, columns, lines, comparisons, in_metrics }
}

fn point(group: &Group) -> Point {
    let estimates = group.values.iter().map(|values| Estimate::of(values)).collect();
    Point { estimates, failed: group.failed }
}
