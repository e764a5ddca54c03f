//! A program that is about to be measured: how it is started, and what its first runs show. In: a program, its
//! candidates, their libraries. Out: a launcher, the duration of a run, and a study that can be run.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tempfile::{Builder, TempDir};

use crate::commands::measure;
use crate::commands::terminal;
use allocanary_doctor::program::StartableProgram;
use allocanary_rows::Cell;
use allocanary_rows::description::Description;
use allocanary_rows::error::{Error, Result};
use allocanary_rows::program::{Figure, Program};
use allocanary_rows::sample::{FailureKind, Measured};
use allocanary_study::program::{Launcher, runtimes};
use allocanary_study::session::{Roster, StudyFile};
use allocanary_sys::private;

/// How long the first run of a program may take before a line is printed.
const PATIENCE: Duration = Duration::from_secs(5);
/// This line, for a program that is taken for one that ends.
const STILL_RUNS: &str = "the first run has not ended after 5 s; it is taken for a program that ends. For a service say how to tell that \
                          it is ready and how to use it, such as --ready tcp:8080 --load 'curl -s localhost:8080'";

/// Prints a line once, if the work takes long.
struct Patience {
    done: Sender<()>,
    thread: Option<JoinHandle<()>>,
}

impl Patience {
    fn begin(most: Duration, line: &'static str) -> Patience {
        let (done, waits) = channel();
        let thread = thread::spawn(move || {
            if waits.recv_timeout(most) == Err(RecvTimeoutError::Timeout) {
                terminal::tell(line);
            }
        });
        Patience { done, thread: Some(thread) }
    }
}

impl Drop for Patience {
    fn drop(&mut self) {
        let _ = self.done.send(());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// A program with its launcher. When this value is dropped, files outside the folder of the results are removed.
pub struct Started {
    /// What starts it.
    pub launcher: Launcher,
    /// How long a run takes, in seconds; 0 before the first.
    pub seconds: f64,
    /// The figures that the user named, with their units from the first run.
    pub figures: BTreeMap<String, Figure>,
    /// Whether the first run had anonymous memory in huge pages.
    pub has_huge_pages: bool,
    /// The most resident memory of the first run, in bytes.
    pub memory: Option<u64>,
    place: TempDir,
}

impl Started {
    /// A program that has not run yet.
    pub fn new(
        looked: &StartableProgram,
        runtime: Option<runtimes::ProgramRuntime>,
        candidates: Vec<Description>,
        libraries: BTreeMap<String, PathBuf>,
    ) -> Result<Started> {
        let mut started = Started::bare()?;
        started.launcher.executable = Some(looked.path.clone());
        started.launcher.own_version = own_version(looked.own.name(), runtime.as_ref());
        started.launcher.runtime = runtime;
        (started.launcher.libraries, started.launcher.candidates) = (libraries, candidates);
        Ok(started)
    }

    /// A program about which nothing is known. It may not exist.
    pub fn bare() -> Result<Started> {
        let place = new_place()?;
        let launcher = Launcher {
            libraries: BTreeMap::new(),
            others: BTreeMap::new(),
            prover: None,
            candidates: Vec::new(),
            executable: None,
            runtime: None,
            own_version: String::new(),
            folder: place.path().join("cells"),
            work: place.path().into(),
            keep: false,
            expected: Mutex::new(None),
            runs: AtomicU32::new(0),
            unspent: Default::default(),
        };
        Ok(Started { launcher, seconds: 0.0, figures: BTreeMap::new(), has_huge_pages: false, memory: None, place })
    }

    /// Runs the first candidate, and returns the study in a form that can be run. If the program's output differs from
    /// run to run, outputs are not compared. `None` if the user interrupted it.
    ///
    /// These runs are not measured. They warm the page cache, show how long a cell takes, and find mistakes before the study
    /// begins.
    pub fn try_out(&mut self, file: StudyFile, first: Option<&Cell>) -> Result<Option<StudyFile>> {
        let Some(first) = first else { return Ok(Some(file)) };
        let interrupted = measure::watch_interrupts();
        let deadline = file.clone().check()?.deadline;
        let varies = self.varies(first, deadline);
        // No files of these runs are kept.
        self.place = new_place()?;
        (self.launcher.folder, self.launcher.work) = (self.place.path().join("cells"), self.place.path().into());
        if interrupted.load(Ordering::Relaxed) {
            return Ok(None);
        }
        self.launcher.runs = AtomicU32::new(0);
        // The time for readings of the heap begins again, too: otherwise the candidate's first measured run would have no reading.
        self.launcher.unspent = Default::default();
        if !varies? {
            return Ok(Some(file));
        }
        terminal::tell(format_args!(
            "the program's output differs from run to run under {}: outputs are not compared; --check COMMAND tells what \
             must hold",
            first.candidate
        ));
        let program = Program { any_output: true, ..file.program.clone().unwrap_or_default() };
        Ok(Some(StudyFile { program: Some(program), ..file }))
    }

    /// Whether the output of two runs differs. A program that takes long is run only once.
    fn varies(&mut self, first: &Cell, deadline: Duration) -> Result<bool> {
        const SHORT: f64 = 3.0;
        let interrupted = measure::watch_interrupts();
        let is_limited = first.job.program().is_some_and(|program| program.memory_limit.is_some());
        let once = |launcher: &Launcher| -> Result<(Option<Measured>, f64)> {
            let (ran, wall) = launcher.run(first, deadline, interrupted);
            // It is no error here if the memory limit kills the program: the study will find this out.
            if ran.as_ref().is_err_and(|failure| failure.kind == FailureKind::OutOfMemory) && is_limited {
                return Ok((None, wall.as_secs_f64()));
            }
            let ran = ran.map_err(|failure| {
                Error::Input(format!("a first run of the program, under {}, failed: {}", first.candidate, failure.text))
            })?;
            Ok((Some(ran), wall.as_secs_f64()))
        };
        let program = first.job.program();
        let any = program.is_some_and(|program| !program.compares_output());
        let is_service = program.is_some_and(|program| program.is_service());
        let patience = (!is_service).then(|| Patience::begin(PATIENCE, STILL_RUNS));
        let (answer, seconds) = once(&self.launcher)?;
        drop(patience);
        let Some(answer) = answer else {
            self.seconds = seconds;
            return Ok(false);
        };
        let huge = ["anonymous_huge_bytes", "part_unknown_huge_bytes"]
            .into_iter()
            .filter_map(|name| answer.readings.get(name));
        self.has_huge_pages = huge.flatten().any(|bytes| bytes.is_some_and(|bytes| bytes > 0));
        let peaks = answer.readings.get("peak_resident_bytes").into_iter().flatten();
        self.memory = peaks.copied().flatten().max();
        self.figures = answer.figures;
        self.seconds = seconds;
        let Some(output) = answer.output.filter(|_| seconds < SHORT && !any) else { return Ok(false) };
        let expected = || self.launcher.expected.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let first_output = expected().take();
        let (again, second) = once(&self.launcher)?;
        let varies = again.is_some_and(|again| again.output != Some(output));
        *expected() = first_output.filter(|_| !varies);
        self.seconds = seconds.min(second);
        Ok(varies)
    }

    /// Keeps the files of each run in this folder.
    pub fn keep_in(&mut self, folder: PathBuf) {
        (self.launcher.folder, self.launcher.keep) = (folder, true);
    }

    /// The candidates as cells, with the time that a run takes.
    pub fn roster(&self) -> Roster {
        let timed = |mut candidate: Description| {
            candidate.workloads.iter_mut().for_each(|job| job.seconds = self.seconds);
            (candidate, PathBuf::new())
        };
        Roster { cells: self.launcher.candidates.iter().cloned().map(timed).collect(), ..Roster::default() }
    }
}

/// The program's own allocator and its runtime, such as `glibc, Java 17.0.15`. If the runtime is the allocator, it is
/// named once.
fn own_version(allocator: &str, runtime: Option<&runtimes::ProgramRuntime>) -> String {
    match runtime {
        None => allocator.to_string(),
        Some(found) if allocator.starts_with(found.runtime.name) => found.title(),
        Some(found) => format!("{allocator}, {}", found.title()),
    }
}

/// A folder for temporary files. Nobody can predict its name, because other users may write to the same place.
fn new_place() -> Result<TempDir> {
    let mode = Permissions::from_mode(private::passage_mode());
    let made = Builder::new().prefix("allocanary-").rand_bytes(10).permissions(mode).tempdir();
    made.map_err(|error| Error::file(std::env::temp_dir(), "making a folder for temporary files", error))
}
