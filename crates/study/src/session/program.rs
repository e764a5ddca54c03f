//! Cells of the user's program. In: a launcher, a cell. Out: its row.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::executor::{CellOutcome, Executor, Ran, row};
use crate::program::Launcher;
use allocanary_rows::Cell;
use allocanary_rows::provenance::Provenance;
use allocanary_rows::sample::Sample;

/// Runs the user's program, with the allocator of each cell preloaded.
pub struct ProgramRunner<'a> {
    launcher: &'a Launcher,
    provenance: Provenance,
}

impl<'a> ProgramRunner<'a> {
    /// The program that `launcher` starts.
    pub fn new(launcher: &'a Launcher) -> Self {
        ProgramRunner { launcher, provenance: Provenance::here() }
    }
}

impl Executor for ProgramRunner<'_> {
    fn run(&self, cell: &Cell, deadline: Duration, stop: &AtomicBool) -> CellOutcome {
        row(cell, &self.provenance, stop, || {
            // Read again for each cell, because the program may be built again while its study runs.
            let builds = self.builds(&mut std::iter::once(cell));
            let (answer, wall) = self.launcher.run(cell, deadline, stop);
            let sample =
                answer.map(|answer| Sample { measured: Some(answer), ..Sample::empty(cell, &self.provenance) });
            Ran { sample, wall, builds }
        })
    }

    fn builds(&self, cells: &mut dyn Iterator<Item = &Cell>) -> BTreeMap<String, String> {
        self.launcher.builds(cells)
    }
}
