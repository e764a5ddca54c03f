//! The resident pages of a program that is recorded. In: its processes. Out: ranges of addresses at a mark of the run, or at its end.

use std::collections::BTreeSet;
use std::ops::Range;

use super::tree;
use allocanary_rows::Moment;

/// The pages of a process that were resident at a mark.
pub struct Residents {
    /// The mark. `None` at the moment when the recording was ended from outside.
    pub moment: Option<Moment>,
    /// The process.
    pub pid: u32,
    /// Ranges of addresses, sorted. Only private memory without a file is in them.
    pub ranges: Vec<Range<u64>>,
}

/// What was read of a run that was interrupted.
#[derive(Default)]
pub struct Interrupted {
    /// When each mark was set, in nanoseconds of the monotonic clock.
    pub moments: Vec<(Moment, u64)>,
    /// When it was interrupted; 0 if it was not.
    pub end: u64,
    /// The resident pages of each process, at the marks and at the interrupt.
    pub residents: Vec<Residents>,
}

/// The resident pages of every process below this one, now. A process that ends meanwhile has none.
pub fn residents() -> Vec<Residents> {
    of(&tree::members(&BTreeSet::new()), None)
}

pub(super) fn of(pids: &[u32], moment: Option<Moment>) -> Vec<Residents> {
    let of = |pid: &u32| Some(Residents { moment, pid: *pid, ranges: allocanary_heap::resident(*pid).ok()? });
    pids.iter().filter_map(of).collect()
}
