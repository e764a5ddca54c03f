//! One panel: a workload at increasing numbers of threads or cores. In: the groups of samples that belong together.
//! Out: its columns, lines and verdicts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::anatomy;
use super::conditions::{Conditions, differing};
use super::fold::{CellKey, CellRepeats, Fold};
use super::{Axis, COST, CandidatePoints, LEAST_SAMPLES, MARGIN, MedianEstimate, Panel, Point, compare_groups};
use crate::metrics::{Metric, metric_of_all};
use allocanary_rows::Candidate;
use allocanary_rows::program::OverTime;
use allocanary_rows::version::Version;

/// What all groups of a panel have in common, apart from columns and lines.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PanelKey {
    /// The name of the study in its rows.
    pub study: Option<String>,
    workload: String,
    axis: Axis,
    /// The number of threads, if the cores increase and the threads are fixed.
    threads: Option<u32>,
    /// The kind of host, if the rows come from several kinds.
    host: Option<Arc<Conditions>>,
}

/// The panel of a group of samples.
pub fn panel_key(key: &CellKey, fold: &Fold) -> PanelKey {
    PanelKey {
        study: key.study.clone(),
        workload: key.workload.clone(),
        axis: match (key.cores, key.threads) {
            (Some(_), _) => Axis::Cores,
            (None, None) => Axis::Program,
            (None, Some(_)) => Axis::Threads,
        },
        threads: key.threads.filter(|_| key.cores.is_some() && threads_are_fixed(key, fold)),
        host: (fold.hosts.len() > 1).then(|| key.host.clone()),
    }
}

/// Whether the threads are fixed while the cores increase. A single pair of 8 threads and 8 cores does not show this.
fn threads_are_fixed(key: &CellKey, fold: &Fold) -> bool {
    let other_cores = |other: &CellKey| {
        other.cores.is_some()
            && (&other.study, &other.workload, other.threads) == (&key.study, &key.workload, key.threads)
            && other.cores != key.cores
    };
    key.cores != key.threads || fold.groups.keys().any(other_cores)
}

/// The panel of the rows with this key, with verdicts in resident memory and in each of `metrics`.
pub fn panel(wanted: &PanelKey, fold: &Fold, metrics: &[Metric]) -> Panel {
    let groups: Vec<(&CellKey, &CellRepeats)> =
        fold.groups.iter().filter(|(key, _)| panel_key(key, fold) == *wanted).collect();
    let column = |key: &CellKey| key.cores.or(key.threads).unwrap_or(0);
    let columns: BTreeSet<u32> = groups.iter().map(|(key, _)| column(key)).collect();
    let columns: Vec<u32> = columns.into_iter().collect();
    // Two versions of one allocator are two candidates.
    let mut places: BTreeMap<(&Candidate, &Version), u32> = BTreeMap::new();
    for (key, group) in &groups {
        let place = places.entry((&key.candidate, &key.version)).or_insert(group.place);
        *place = group.place.min(*place);
    }
    let mut candidates: Vec<(u32, (&Candidate, &Version))> =
        places.into_iter().map(|(name, place)| (place, name)).collect();
    candidates.sort_unstable();
    let versions = |candidate: &Candidate| candidates.iter().filter(|(_, (other, _))| *other == candidate).count();

    let group = |(candidate, version): (&Candidate, &Version), at: u32| {
        let is_it = |key: &CellKey| key.candidate == *candidate && key.version == *version && column(key) == at;
        groups.iter().find(|(key, _)| is_it(key)).map(|(_, group)| *group)
    };
    let lines: Vec<CandidatePoints> = candidates
        .iter()
        .map(|(_, (candidate, version))| {
            let groups: Vec<Option<&CellRepeats>> = columns.iter().map(|at| group((candidate, version), *at)).collect();
            CandidatePoints {
                candidate: (*candidate).clone(),
                version: (*version).clone(),
                of_several_versions: versions(candidate) > 1,
                points: groups.into_iter().map(|group| group.map(point)).collect(),
            }
        })
        .collect();

    let mut pairs = Vec::new();
    for (line, (_, candidate)) in candidates.iter().enumerate().skip(1) {
        for (at, column) in columns.iter().enumerate() {
            if let Some(pair) = group(candidates[0].1, *column).zip(group(*candidate, *column)) {
                pairs.push((line, at, pair));
            }
        }
    }
    let compared = |metric: &Metric| {
        let found = compare_groups(pairs.iter().map(|(_, _, pair)| *pair), metric, MARGIN);
        pairs.iter().zip(found).map(|((line, at, _), found)| (*line, *at, found)).collect()
    };
    let comparisons = compared(metric_of_all("resident"));
    let cost = COST.map(metric_of_all);
    let in_metrics = metrics.iter().chain(cost).map(|metric| (metric.name.clone(), compared(metric))).collect();

    // Below that number there are no verdicts, and a single repeat cannot alternate with another.
    let is_judged = |group: &CellRepeats| group.samples() >= LEAST_SAMPLES;
    let is_apart =
        |(one, other): (&CellRepeats, &CellRepeats)| is_judged(one) && is_judged(other) && one.is_apart_from(other);
    let mut apart: Vec<usize> = pairs.iter().filter(|(.., pair)| is_apart(*pair)).map(|(line, ..)| *line).collect();
    apart.dedup();

    let mut title = wanted.workload.clone();
    if let Some(threads) = wanted.threads {
        title.push_str(&format!(", {threads} threads"));
    }
    if let Some(host) = &wanted.host {
        let hosts: Vec<&Conditions> = fold.hosts.iter().map(|host| &**host).collect();
        let at = hosts.iter().position(|other| *other == &**host);
        let named = at.and_then(|at| differing(&hosts).into_iter().nth(at)).unwrap_or_default();
        title.push_str(&format!(", on hosts with {named}"));
    }
    Panel { title, axis: wanted.axis, columns, lines, comparisons, in_metrics, apart }
}

fn point(group: &CellRepeats) -> Point {
    let estimates = group.values.iter();
    let estimates = estimates.filter_map(|(name, values)| Some((name.clone(), MedianEstimate::of(values)?))).collect();
    let mut over_time: Vec<&OverTime> = group.over_time.iter().collect();
    over_time.sort_by_key(|run| run.resident_kib.iter().max());
    let over_time = over_time.get(over_time.len() / 2).map(|run| (*run).clone());
    Point {
        estimates,
        failed: group.failed,
        anatomy: anatomy::middle(&group.anatomies),
        over_time,
        environment: group.environment.clone(),
    }
}
