//! Folds rows into groups, so that a hundred thousand rows need no more memory than their numbers.
//! In: samples, one at a time. Out: for each cell without its repeat, the values of each metric.

use std::collections::{BTreeMap, BTreeSet};

use super::metrics::ALL;
use crate::provenance::Provenance;
use crate::sample::Sample;

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
    /// The host's own cores.
    pub host_cores: u32,
}

/// The repeats of a cell.
#[derive(Debug, Default)]
pub struct Group {
    /// By metric, in the order of the metrics.
    pub values: Vec<Vec<f64>>,
    /// Repeats that failed.
    pub failed: usize,
    /// The version of the allocator.
    pub version: String,
    /// The least place of its cells in their studies.
    pub place: u32,
}

/// All rows so far.
#[derive(Debug, Default)]
pub struct Fold {
    /// The groups, by what they have in common.
    pub groups: BTreeMap<Key, Group>,
    /// How many rows there were.
    pub rows: usize,
    /// What failed and why, with how often.
    pub failures: BTreeMap<(String, String), usize>,
    /// Settings that were read and of which nothing showed an effect: the candidate, the setting and the reason.
    pub unproven: BTreeSet<(String, String, String)>,
    /// Every build and host, once.
    pub provenance: Vec<Provenance>,
}

impl Fold {
    /// Takes a row in.
    pub fn add(&mut self, sample: &Sample) {
        self.rows += 1;
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
            host_cores: sample.provenance.host.cores,
        };
        let group = self.groups.entry(key).or_insert_with(|| Group {
            values: vec![Vec::new(); ALL.len()],
            place: cell.place,
            ..Group::default()
        });
        group.place = group.place.min(cell.place);
        if let Some(answer) = &sample.answer {
            group.version.clone_from(&answer.version);
            let unproven = answer.unproven.iter();
            self.unproven.extend(unproven.map(|(name, why)| (cell.candidate.clone(), name.clone(), why.clone())));
        }
        match &sample.error {
            Some(failure) => {
                group.failed += 1;
                let threads = if cell.threads == 1 { "thread" } else { "threads" };
                let what = format!("{}, {}, {} {threads}", cell.candidate, cell.workload, cell.threads);
                *self.failures.entry((what, failure.text.clone())).or_default() += 1;
            }
            None => {
                for (values, metric) in group.values.iter_mut().zip(ALL) {
                    values.extend(metric.of(sample));
                }
            }
        }
    }

    /// Whether rows of hosts with different numbers of cores are here.
    pub fn has_unlike_hosts(&self) -> bool {
        let mut cores = self.provenance.iter().map(|provenance| provenance.host.cores);
        let first = cores.next();
        cores.any(|cores| Some(cores) != first)
    }
}
