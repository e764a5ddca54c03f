//! Failures that no longer count, because their cells were tried again. In: rows in any order. Out: the failures to
//! ignore.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use allocanary_rows::sample::Sample;

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

/// A hash that names one run of a cell. It is made of its start time and of the host on which its study began, because the retry may run in
/// another container. It is short, because each row may need one.
fn name(sample: &Sample, started_ms: u64) -> u64 {
    let mut hasher = DefaultHasher::new();
    (sample.cell.identity(), sample.origin(), started_ms).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use allocanary_rows::sample::{Failure, FailureKind};

    fn failure(host: &str, started_ms: u64) -> Sample {
        let rows = include_str!("../../../../tests/golden/sample.jsonl");
        let mut row: Sample = serde_json::from_str(rows.lines().next().unwrap()).unwrap();
        row.measured = None;
        row.error = Some(Failure { kind: FailureKind::Late, text: "late".into() });
        row.provenance.host.name = host.into();
        row.started_ms = started_ms;
        row
    }

    #[test]
    fn a_retry_on_another_host_replaces_the_failure_of_its_study_and_of_no_other() {
        let retry = Sample { replaces: Some(7), began_on: Some("pod-1".into()), ..failure("pod-2", 9) };
        let mut retries = Retries::default();
        retries.keep(&failure("pod-1", 7), "ours");
        retries.keep(&failure("other", 7), "another machine's, in the same millisecond");
        assert_eq!(retries.replaced_by(&retry), Some("ours"));
        assert_eq!(retries.replaced_by(&Sample { replaces: Some(7), ..failure("pod-2", 9) }), None);
        // In the other order.
        let mut retries = Retries::<()>::default();
        assert_eq!(retries.replaced_by(&retry), None);
        let replaced =
            [("pod-1", 7), ("other", 7), ("pod-1", 8)].map(|(host, at)| retries.is_replaced(&failure(host, at)));
        assert_eq!(replaced, [true, false, false]);
        // The retry failed too, in its turn, and is replaced from a third.
        retries.keep(&retry, ());
        let again = Sample { replaces: Some(9), began_on: Some("pod-1".into()), ..failure("pod-3", 11) };
        assert_eq!(retries.replaced_by(&again), Some(()));
    }
}
