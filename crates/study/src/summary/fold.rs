//! Folds rows into groups, so that a hundred thousand rows need no more memory than their numbers.
//! In: samples, one at a time. Out: for each cell without its repeat, the values of each metric.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use super::conditions::Conditions;
use super::metrics::ALL;
use super::noise::Noise;
use super::retries::Retries;
use allocanary_cell::Cell;
use allocanary_cell::provenance::Provenance;
use allocanary_cell::sample::Sample;

/// What all repeats of a cell have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The study, where rows name it.
    pub study: Option<String>,
    /// The workload as it is written.
    pub workload: String,
    /// The candidate as it is written.
    pub candidate: String,
    /// Worker threads.
    pub threads: u32,
    /// Emulated cores.
    pub cores: Option<u32>,
    /// The kind of host: unlike ones are never pooled.
    pub host: Arc<Conditions>,
    /// The version of the allocator; empty where no row of the group says it.
    pub version: String,
}

/// The repeats of a cell.
#[derive(Debug, Default)]
pub struct Group {
    /// By metric, in the order of the metrics.
    pub values: Vec<Vec<f64>>,
    /// Repeats that failed.
    pub failed: usize,
    /// The least place of its cells in their studies.
    pub place: u32,
}

/// All rows so far.
#[derive(Debug, Default)]
pub struct Fold {
    /// The groups, by what they have in common.
    pub groups: BTreeMap<Key, Group>,
    /// How many rows there were, each counted once.
    pub rows: usize,
    /// How many rows were there already, word for word.
    pub repeated: usize,
    /// The kinds of hosts.
    pub hosts: BTreeSet<Arc<Conditions>>,
    /// How busy they were.
    pub noise: Noise,
    /// What failed and why, with how often.
    pub failures: BTreeMap<(String, String), usize>,
    /// Settings that were read and of which nothing showed an effect: the candidate, the setting and the reason.
    pub unproven: BTreeSet<(String, String, String)>,
    /// Every build and host, once.
    pub provenance: Vec<Provenance>,
    seen: HashSet<u64>,
    /// What failed, as it was counted, until its cell's retry is met.
    retries: Retries<(Key, (String, String))>,
    progress: BTreeMap<(Option<String>, String), Completion>,
}

/// How far a study has come on a host.
#[derive(Debug, Default)]
struct Completion {
    planned: usize,
    cells: HashSet<u64>,
}

impl Fold {
    /// Takes a row in, once: a row that is the same in every figure and every moment was read twice, from a file that was
    /// named twice or put together from others. A failure whose cell was tried again does not count.
    pub fn add(&mut self, sample: &Sample) {
        if !self.seen.insert(digest(sample)) {
            self.repeated += 1;
            return;
        }
        if let Some((key, failure)) = self.retries.replaced_by(sample) {
            self.take_back(&key, &failure);
        }
        if self.retries.is_replaced(sample) {
            return;
        }
        self.rows += 1;
        self.noise.add(sample);
        let progress = (sample.cell.study.clone(), sample.provenance.host.name.clone());
        let progress = self.progress.entry(progress).or_default();
        progress.planned = progress.planned.max(sample.planned.unwrap_or(0) as usize);
        // As a resumed study knows its cells: a place shifts when a candidate is added.
        progress.cells.insert(digest(&Cell { place: 0, ..sample.cell.clone() }));
        if !self.provenance.contains(&sample.provenance) {
            self.provenance.push(sample.provenance.clone());
        }
        let cell = &sample.cell;
        let key = Key {
            study: cell.study.clone(),
            workload: cell.workload.clone(),
            candidate: cell.candidate.clone(),
            threads: cell.threads,
            cores: cell.cores,
            host: self.host(sample),
            version: sample.answer.as_ref().map_or(String::new(), |answer| answer.version.clone()),
        };
        let group = self.groups.entry(key.clone()).or_insert_with(|| Group {
            values: vec![Vec::new(); ALL.len()],
            place: cell.place,
            ..Group::default()
        });
        group.place = group.place.min(cell.place);
        if let Some(answer) = &sample.answer {
            let unproven = answer.unproven.iter();
            self.unproven.extend(unproven.map(|(name, why)| (cell.candidate.clone(), name.clone(), why.clone())));
        }
        match &sample.error {
            Some(failure) => {
                group.failed += 1;
                let threads = if cell.threads == 1 { "thread" } else { "threads" };
                let what = format!("{}, {}, {} {threads}", cell.candidate, cell.workload, cell.threads);
                let failure = (what, failure.text.clone());
                *self.failures.entry(failure.clone()).or_default() += 1;
                self.retries.keep(sample, (key, failure));
            }
            None => {
                for (values, metric) in group.values.iter_mut().zip(ALL) {
                    values.extend(metric.of(sample));
                }
            }
        }
    }

    fn take_back(&mut self, key: &Key, failure: &(String, String)) {
        self.rows -= 1;
        if let Some(group) = self.groups.get_mut(key) {
            group.failed -= 1;
        }
        let Some(count) = self.failures.get_mut(failure) else { return };
        *count -= 1;
        if *count == 0 {
            self.failures.remove(failure);
        }
    }

    /// The row's kind of host, kept once.
    fn host(&mut self, sample: &Sample) -> Arc<Conditions> {
        let host = Conditions::of(&sample.provenance.host);
        if let Some(known) = self.hosts.get(&host) {
            return known.clone();
        }
        let host = Arc::new(host);
        self.hosts.insert(host.clone());
        host
    }

    /// Puts cells that failed before they told their allocator's version to those of the same candidate that did not. To be
    /// called when all rows are in.
    pub fn settle(&mut self) {
        let unknown: Vec<Key> = self.groups.keys().filter(|key| key.version.is_empty()).cloned().collect();
        let (mut same_cell, mut same_candidate) = (BTreeMap::new(), BTreeMap::new());
        for key in self.groups.keys().filter(|key| !key.version.is_empty()) {
            same_candidate.entry((key.candidate.clone(), key.host.clone())).or_insert(key.version.clone());
            same_cell.entry(Key { version: String::new(), ..key.clone() }).or_insert(key.version.clone());
        }
        for key in unknown {
            let version =
                same_cell.get(&key).or_else(|| same_candidate.get(&(key.candidate.clone(), key.host.clone())));
            let Some(version) = version.cloned() else { continue };
            let Some(failed) = self.groups.remove(&key) else { continue };
            let known = self.groups.entry(Key { version, ..key }).or_insert_with(|| Group {
                values: vec![Vec::new(); ALL.len()],
                place: failed.place,
                ..Group::default()
            });
            known.failed += failed.failed;
            known.place = known.place.min(failed.place);
        }
    }

    /// Where a study has fewer rows than it planned cells: the host, how many have rows, how many were planned.
    pub fn unfinished(&self, study: Option<&str>) -> Vec<(String, usize, usize)> {
        let of_study = self.progress.iter().filter(|((name, _), _)| name.as_deref() == study);
        let short = of_study.filter(|(_, progress)| progress.cells.len() < progress.planned);
        short.map(|((_, host), progress)| (host.clone(), progress.cells.len(), progress.planned)).collect()
    }

    /// How many builds of one and the same package measured. They are pooled; a report says so.
    pub fn builds(&self) -> BTreeMap<&str, BTreeSet<&str>> {
        let mut builds: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for provenance in &self.provenance {
            builds.entry(&provenance.build.package).or_default().insert(&provenance.build.id);
        }
        builds
    }
}

/// 64 bits of a value's text: two rows in a hundred thousand share them once in a few billion reports.
fn digest(value: &impl serde::Serialize) -> u64 {
    let mut hasher = DefaultHasher::new();
    serde_json::to_vec(value).expect("rows have only texts, numbers, lists and maps").hash(&mut hasher);
    hasher.finish()
}
