//! One side of a comparison of two states. In: folded rows. Out: groups that can be compared with those of the other side.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{CellKey, CellRepeats, Fold, differing, notes};
use crate::metrics::Metrics;
use allocanary_rows::Candidate;
use allocanary_rows::error::{Error, Result};
use allocanary_rows::version::Version;

/// Rows of the old or of the new state.
pub struct Side {
    /// All that is known of the rows, except their groups.
    pub(super) fold: Fold,
    /// Keyed by the cells alone: the host and the allocator's version may differ between the two sides.
    pub(super) groups: BTreeMap<CellKey, CellRepeats>,
    /// The versions of each candidate.
    pub(super) versions: BTreeMap<Candidate, BTreeSet<Version>>,
}

impl Side {
    /// The rows of a file of that name. Rows of two kinds of hosts, or of two versions, cannot be pooled into one figure.
    pub fn of(name: &str, mut fold: Fold) -> Result<Side> {
        if fold.rows == 0 {
            return Err(Error::NoRows(format!("{name}: no row that can be compared")));
        }
        fold.settle();
        let (mut groups, mut versions) = (BTreeMap::new(), BTreeMap::<Candidate, BTreeSet<Version>>::new());
        let mut kinds: BTreeMap<CellKey, CellKey> = BTreeMap::new();
        for (key, group) in std::mem::take(&mut fold.groups) {
            let cells = CellKey { host: Arc::default(), version: Version::default(), ..key.clone() };
            if let Some(other) = kinds.insert(cells.clone(), key.clone()) {
                return Err(unlike(name, &other, &key));
            }
            versions.entry(key.candidate.clone()).or_default().insert(key.version);
            groups.insert(cells, group);
        }
        Ok(Side { fold, groups, versions })
    }

    /// The metrics that the rows can have.
    pub fn metrics(&self) -> &Metrics {
        &self.fold.metrics
    }

    /// What a reader must know about these rows: disturbances, and studies that are not finished.
    pub(super) fn notes(&self) -> Vec<String> {
        let unfinished = self.unfinished().into_iter();
        let unfinished =
            unfinished.map(|(rows, planned)| format!("not finished: {rows} of {planned} planned processes have rows"));
        notes(&self.fold).into_iter().chain(unfinished).collect()
    }

    /// Studies that are not finished: the cells that have rows, and those that were planned.
    pub(super) fn unfinished(&self) -> Vec<(usize, usize)> {
        let studies: BTreeSet<Option<&str>> = self.groups.keys().map(|key| key.study.as_deref()).collect();
        let unfinished = studies.into_iter().flat_map(|study| self.fold.unfinished(study));
        unfinished.map(|(_, rows, planned)| (rows, planned)).collect()
    }
}

/// The error for rows of one side that cannot be pooled into one figure.
fn unlike(name: &str, one: &CellKey, other: &CellKey) -> Error {
    let kinds = match one.host == other.host {
        true => [one, other].map(|key| format!("version {}", key.version)).to_vec(),
        false => differing(&[&one.host, &other.host]),
    };
    Error::Input(format!(
        "{name}: the rows of {} are of two kinds: {}. They cannot be pooled into one figure: compare files of one kind each",
        one.title(),
        kinds.join("; ")
    ))
}
