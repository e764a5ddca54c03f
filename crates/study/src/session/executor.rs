//! What runs a cell. In: a cell, a deadline, a flag that stops it. Out: its row, or that it was stopped.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use allocanary_rows::Cell;
use allocanary_rows::load::Load;
use allocanary_rows::provenance::Provenance;
use allocanary_rows::sample::{Failure, Sample};
use allocanary_sys::clocks::monotonic_nanos;

/// The outcome of a cell.
#[derive(Clone, Debug)]
pub enum CellOutcome {
    /// It was measured, or it failed. The row has the values or the kind of failure.
    Row(Box<Sample>),
    /// It was stopped before it ended. It has no row, not even a failed one: `--resume` runs it again.
    Stopped,
}

/// Runs cells, each in a fresh process.
pub trait Executor {
    /// Runs a cell. It is killed after `deadline`, which is a failure, and as soon as `stop` is set.
    fn run(&self, cell: &Cell, deadline: Duration, stop: &AtomicBool) -> CellOutcome;

    /// The builds of the user's files in these cells as they are now, by the names that the user gave. Cells of our own
    /// workloads have none.
    fn builds(&self, _cells: &mut dyn Iterator<Item = &Cell>) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    /// The executor's clock. A budget counts by it.
    fn now(&self) -> Duration {
        Duration::from_nanos(monotonic_nanos())
    }
}

/// The result of one process, before it is a row.
pub(super) struct Ran {
    /// The sample of a cell that answered, or why there is none.
    pub(super) sample: Result<Sample, Failure>,
    /// The time from the start of the process to its end.
    pub(super) wall: Duration,
    /// The builds of the user's files.
    pub(super) builds: BTreeMap<String, String>,
}

/// Runs a process by `work`, and makes a row of its result. The row also has the load of the machine meanwhile.
pub(super) fn row(cell: &Cell, provenance: &Provenance, stop: &AtomicBool, work: impl FnOnce() -> Ran) -> CellOutcome {
    let started_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
    let load = Load::now();
    let Ran { sample, wall, builds } = work();
    if stop.load(Ordering::Relaxed) {
        return CellOutcome::Stopped;
    }
    let sample = sample.unwrap_or_else(|failure| Sample { error: Some(failure), ..Sample::empty(cell, provenance) });
    let load = Some(load.until_now());
    CellOutcome::Row(Box::new(Sample { wall_us: wall.as_micros() as u64, started_ms, builds, load, ..sample }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use allocanary_rows::job::Job;

    fn ran(stop: &AtomicBool) -> CellOutcome {
        let cell = Cell::new("system", "system", Job::workload("small", 1));
        let provenance = Provenance::here();
        row(&cell, &provenance, stop, || Ran {
            sample: Ok(Sample::empty(&cell, &provenance)),
            wall: Duration::from_micros(7),
            builds: [("./program".to_string(), "ab".to_string())].into(),
        })
    }

    #[test]
    fn the_machines_other_work_stands_in_every_row() {
        let CellOutcome::Row(row) = ran(&AtomicBool::new(false)) else { panic!("it was not stopped") };
        assert_eq!((row.wall_us, row.builds["./program"].as_str()), (7, "ab"));
        assert!(row.started_ms > 0 && row.load.is_some_and(|load| load.cpus > 0 && load.average >= 0.0), "{row:?}");
    }

    #[test]
    fn a_cell_that_was_stopped_has_no_row() {
        assert!(matches!(ran(&AtomicBool::new(true)), CellOutcome::Stopped));
    }
}
