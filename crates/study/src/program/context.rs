//! Where one run happens. In: a cell, a folder, an environment. Out: the commands around the program, and what is kept when the user
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

/// Where one run happens, and with what.
pub struct RunContext<'a> {
    /// The cell.
    pub cell: &'a Cell,
    /// Its program, with its port and folder filled in.
    pub program: Program,
    /// Files of the run.
    pub folder: PathBuf,
    /// The environment of the program.
    pub environment: BTreeMap<String, String>,
    /// The environment of the commands around it.
    pub around: BTreeMap<String, String>,
    /// When it must have ended.
    pub deadline: Duration,
    /// Set by Ctrl-C.
    pub stop: &'a AtomicBool,
    /// Of each candidate, what its next run may use for reading its heap: a hundred times that.
    pub unspent: &'a Unspent,
    /// The library of somebody else's that it preloads.
    pub library: Option<PathBuf>,
    /// The runtime whose settings are read back, if it has some.
    pub runtime: Option<&'a runtimes::ProgramRuntime>,
    /// Where it runs under the recorder: what was read until the user interrupts it is put there.
    pub interrupted: Option<&'a Mutex<Interrupted>>,
    /// Whether its resident pages are read at the marks, and when the user interrupts it.
    pub reads_pages: bool,
}

/// Microseconds by candidate; less than nothing if more was used than earned.
pub type Unspent = Mutex<BTreeMap<String, i64>>;

impl RunContext<'_> {
    pub(super) fn around<'b>(&'b self, flag: &'b str, text: &'b str, input: Option<&'b Path>) -> ShellCommand<'b> {
        let output = self.folder.join(flag.trim_start_matches('-'));
        ShellCommand { flag, text, folder: Path::new("."), environment: &self.around, output, input }
    }

    /// The resident pages of all processes, if they are read. Of one that ends meanwhile there are none.
    pub(super) fn residents(&self, moment: Option<Moment>, watch: &mut ProgramUse) -> Vec<Residents> {
        let pids = if self.reads_pages { watch.alive() } else { &[] };
        residents::of(pids, moment)
    }

    /// The user has interrupted a run: if it is recorded, its pages are read before it is ended, where they are read at all.
    pub(super) fn interrupt(&self, watch: &mut ProgramUse) {
        if let Some(interrupted) = self.interrupted {
            let mut interrupted = interrupted.lock().unwrap_or_else(PoisonError::into_inner);
            interrupted.end = monotonic_nanos();
            interrupted.residents = self.residents(None, watch);
        }
    }
}
