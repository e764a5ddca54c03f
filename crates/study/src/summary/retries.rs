//! Failures that no longer count, because their cells were tried again. In: rows in any order. Out: the failures to
//! ignore.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use allocanary_cell::sample::Sample;

/// The failures so far, each with the data to undo when the row of its retry is read.
#[derive(Debug)]
pub struct Retries<T> {
    failed: BTreeMap<u64, T>,
    /// Failures whose retry was read first.
    replaced: BTreeSet<u64>,
}

impl<T> Default for Retries<T> {
    fn default() -> Self {
        Retries { failed: BTreeMap::new(), replaced: BTreeSet::new() }
    }
}

impl<T> Retries<T> {
    /// The failure that this row replaces, if it was already read.
    pub fn replaced_by(&mut self, sample: &Sample) -> Option<T> {
        let replaced = name(sample, sample.replaces?);
        let met = self.failed.remove(&replaced);
        if met.is_none() {
            self.replaced.insert(replaced);
        }
        met
    }

    /// Whether an earlier row replaces this failure.
    pub fn is_replaced(&self, sample: &Sample) -> bool {
        sample.error.is_some() && self.replaced.contains(&name(sample, sample.started_ms))
    }

    /// Stores a failure, with the data to undo.
    pub fn keep(&mut self, sample: &Sample, what: T) {
        self.failed.insert(name(sample, sample.started_ms), what);
    }
}

/// A hash that names one run of a cell by its start time and host. It is short, because each row may need one.
fn name(sample: &Sample, started_ms: u64) -> u64 {
    let mut hasher = DefaultHasher::new();
    (sample.cell.identity(), &sample.provenance.host.name, started_ms).hash(&mut hasher);
    hasher.finish()
}
