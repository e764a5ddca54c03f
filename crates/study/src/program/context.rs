//! The context of one run. In: a cell, a folder, an environment. Out: the commands around the program, and what is kept when the user
//! interrupts it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::around::ShellCommand;
use super::watch::ProgramUse;
use super::{Interrupted, Residents, residents, runtimes};
use allocanary_rows::Cell;
use allocanary_rows::Moment;
use allocanary_rows::program::Program;
use allocanary_sys::clocks::monotonic_nanos;

/// The context of one run: its cell, folder, environment and limits.
pub struct RunContext<'a> {
    /// The cell.
    pub cell: &'a Cell,
    /// Its program, with its port and folder filled in.
    pub program: Program,
    /// The folder for the files of the run.
    pub folder: PathBuf,
    /// The environment of the program.
    pub environment: BTreeMap<String, String>,
    /// The environment of the commands around it.
    pub around: BTreeMap<String, String>,
    /// The time limit of the run.
    pub deadline: Duration,
    /// Set by Ctrl-C.
    pub stop: &'a AtomicBool,
    /// The time that each candidate has earned for reading its heap.
    pub unspent: &'a Unspent,
    /// The library that it preloads, if that is not ours.
    pub library: Option<PathBuf>,
    /// The runtime whose settings are read back, if it has some.
    pub runtime: Option<&'a runtimes::ProgramRuntime>,
    /// Under a recorder: receives what was read when the user interrupts the run.
    pub interrupted: Option<&'a Mutex<Interrupted>>,
    /// Whether its resident pages are read, at the marks and when the user interrupts it.
    pub reads_pages: bool,
}

/// Microseconds of running time by candidate, less a hundred times the cost of its readings. Negative if readings cost more than was
/// earned.
pub type Unspent = Mutex<BTreeMap<String, i64>>;

impl RunContext<'_> {
    pub(super) fn around<'b>(&'b self, flag: &'b str, text: &'b str, input: Option<&'b Path>) -> ShellCommand<'b> {
        let output = self.folder.join(flag.trim_start_matches('-'));
        ShellCommand { flag, text, folder: Path::new("."), environment: &self.around, output, input }
    }

    /// The resident pages of all processes, if they are read. A process that ends meanwhile has none.
    pub(super) fn residents(&self, moment: Option<Moment>, watch: &mut ProgramUse) -> Vec<Residents> {
        let pids = if self.reads_pages { watch.alive() } else { &[] };
        residents::of(pids, moment)
    }

    /// Called when the user interrupts a run, before it is ended. For a run under a recorder, it stores the time and the resident pages.
    pub(super) fn interrupt(&self, watch: &mut ProgramUse) {
        if let Some(interrupted) = self.interrupted {
            let mut interrupted = interrupted.lock().unwrap_or_else(PoisonError::into_inner);
            interrupted.end = monotonic_nanos();
            interrupted.residents = self.residents(None, watch);
        }
    }
}
