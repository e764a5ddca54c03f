//! Failures that count no more, because their cells were tried again. In: rows in any order. Out: which failures to leave
//! out.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use allocanary_cell::sample::Sample;

/// The failures so far, each with what is to be taken back when its retry is met.
#[derive(Debug)]
pub struct Retries<T> {
    failed: BTreeMap<u64, T>,
    /// Failures that were replaced before they were met.
    replaced: BTreeSet<u64>,
}

impl<T> Default for Retries<T> {
    fn default() -> Self {
        Retries { failed: BTreeMap::new(), replaced: BTreeSet::new() }
    }
}

impl<T> Retries<T> {
    /// The failure that this row replaces, if it was met already.
    pub fn replaced_by(&mut self, sample: &Sample) -> Option<T> {
        let replaced = name(sample, sample.replaces?);
        let met = self.failed.remove(&replaced);
        if met.is_none() {
            self.replaced.insert(replaced);
        }
        met
    }

    /// Whether a failure was replaced by a row that was met before.
    pub fn is_replaced(&self, sample: &Sample) -> bool {
        sample.error.is_some() && self.replaced.contains(&name(sample, sample.started_ms))
    }

    /// Keeps a failure, with what is to be taken back.
    pub fn keep(&mut self, sample: &Sample, what: T) {
        self.failed.insert(name(sample, sample.started_ms), what);
    }
}

/// What names the try of a cell that started then, on that host. Short: there may be as many as rows.
fn name(sample: &Sample, started_ms: u64) -> u64 {
    let mut hasher = DefaultHasher::new();
    (sample.cell.identity(), &sample.provenance.host.name, started_ms).hash(&mut hasher);
    hasher.finish()
}
