//! What all cells of a program have in common: where the preloaded libraries are, how settings reach them, and the output
//! that all candidates must have. In: a cell. Out: its answer or its failure.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::build::build_of;
use super::filled::{filled, filled_all, free_port, with};
use super::given::{PROOF, given};
use super::{Interrupted, Residents, RunContext, Unspent, runtimes, variables};
use allocanary_rows::Cell;
use allocanary_rows::Moment;
use allocanary_rows::description::Description;
use allocanary_rows::program::Output;
use allocanary_rows::sample::{Failure, FailureKind, Measured};
use allocanary_rows::{Candidate, PRELOAD};
use allocanary_sys::{private, sys};

/// The most bytes of standard output that are kept for each run. A longer output is kept only for the first run.
const MOST_EACH: u64 = 1 << 20;

/// Starts programs.
pub struct Launcher {
    /// The library of each allocator, by name.
    pub libraries: BTreeMap<String, PathBuf>,
    /// The libraries of others that candidates name, by these names.
    pub others: BTreeMap<String, Other>,
    /// Our library that reads settings back from libraries of others. `None` if no candidate needs it.
    pub prover: Option<PathBuf>,
    /// The candidates as descriptions: their tables of settings, and how these reach them.
    pub candidates: Vec<Description>,
    /// The program's file. `None` if it is not known: then rows do not have its build.
    pub executable: Option<PathBuf>,
    /// The program's runtime, if it is one with settings.
    pub runtime: Option<runtimes::ProgramRuntime>,
    /// The version of the program's own allocator, as far as it is known.
    pub own_version: String,
    /// The folder in which each run gets a folder for its files.
    pub folder: PathBuf,
    /// The folder in which each run gets an empty folder.
    pub work: PathBuf,
    /// Whether the files of a run are kept.
    pub keep: bool,
    /// The output that all runs must have; `None` until it is known, or if it may differ.
    pub expected: Mutex<Option<(Candidate, Output)>>,
    /// The number of runs so far.
    pub runs: AtomicU32,
    /// The time that each candidate's runs may still spend on reading its heap.
    pub unspent: Unspent,
}

/// A library that is not ours.
#[derive(Clone, Debug, PartialEq)]
pub struct Other {
    /// Its path.
    pub library: PathBuf,
    /// The name by which our library knows how to read its settings.
    pub reader: &'static str,
}

/// Adds a recorder's variables to the environment of a program.
pub type AddsVariables<'a> = &'a dyn Fn(&mut BTreeMap<String, String>) -> Result<(), String>;

/// A recorder of a program.
#[derive(Clone, Copy)]
pub struct ProgramRecorder<'a> {
    /// Adds its variables to the environment of the program.
    pub environment: AddsVariables<'a>,
    /// Receives what was read of a run that is interrupted.
    pub interrupted: &'a Mutex<Interrupted>,
    /// Whether the resident pages are read: only a trace with stacks has a place for them.
    pub reads_pages: bool,
}

/// A run that was recorded.
pub struct Recorded {
    /// What was measured.
    pub answer: Measured,
    /// When each mark was set, in nanoseconds of the monotonic clock.
    pub moments: Vec<(Moment, u64)>,
    /// The resident pages of each process at the marks of a service.
    pub residents: Vec<Residents>,
}

impl Launcher {
    /// Runs a cell.
    pub fn run(&self, cell: &Cell, deadline: Duration, stop: &AtomicBool) -> (Result<Measured, Failure>, Duration) {
        let started = Instant::now();
        let ran = self.record(cell, None, deadline, stop);
        (ran.map(|ran| ran.answer), started.elapsed())
    }

    /// The builds of the user's files in `cells`: the program, and the libraries that candidates name by their paths. The keys are the
    /// names that the user gave.
    pub fn builds<'a>(&self, cells: impl Iterator<Item = &'a Cell>) -> BTreeMap<String, String> {
        let files = |cell: &Cell| {
            let name = cell.job.program().and_then(|program| program.command.first().cloned());
            let library = self.library_of(cell).map(|path| (path.display().to_string(), path));
            name.zip(self.executable.clone()).into_iter().chain(library)
        };
        let files: BTreeMap<String, PathBuf> = cells.flat_map(files).collect();
        files.into_iter().filter_map(|(name, path)| Some((name, build_of(&path).ok()?))).collect()
    }

    /// Runs a cell, perhaps under a recorder.
    pub fn record(
        &self,
        cell: &Cell,
        recorder: Option<ProgramRecorder>,
        deadline: Duration,
        stop: &AtomicBool,
    ) -> Result<Recorded, Failure> {
        sys::adopt_orphans();
        let start = |text: String| Failure { kind: FailureKind::Start, text };
        let program = cell.job.program().ok_or_else(|| start("the cell has no program".into()))?;
        let number = self.runs.fetch_add(1, Ordering::Relaxed) + 1;
        let safe = |c: char| if c.is_alphanumeric() || "._-".contains(c) { c } else { '_' };
        let safe: String = cell.candidate.to_string().chars().map(safe).take(80).collect();
        let folder = self.folder.join(format!("{number:04}-{safe}-{}", cell.repeat));
        // A short path without special characters: the path of a socket has at most 108 bytes, and some programs split
        // such a path at commas.
        let work = self.work.join(number.to_string());
        let failed = |path: &Path, error| start(format!("{}: making the run's folder: {error}", path.display()));
        private::make_folder(&folder).map_err(|error| failed(&folder, error))?;
        private::make_passage(&work).map_err(|error| failed(&work, error))?;
        let folder = folder.canonicalize().unwrap_or(folder);
        let work = work.canonicalize().unwrap_or(work);
        let proof = folder.join("proof");
        let mut environment = self.environment(cell, &proof).map_err(start)?;
        recorder.map_or(Ok(()), |recorder| (recorder.environment)(&mut environment)).map_err(start)?;
        let given = given(&environment, self.prover.as_deref());
        let port = free_port();
        let fill = |text: &str| filled(text, port, &work);
        let mut place = RunContext {
            cell,
            program: with(program, fill),
            folder: folder.clone(),
            environment: filled_all(environment, fill),
            around: variables::texts(),
            deadline,
            stop,
            unspent: &self.unspent,
            library: self.library_of(cell),
            runtime: self.runtime_of(cell),
            interrupted: recorder.map(|recorder| recorder.interrupted),
            reads_pages: recorder.is_some_and(|recorder| recorder.reads_pages),
        };
        let mut ran = place.run();
        if let Ok(ran) = &mut ran
            && recorder.is_none()
            && !ran.has_peak()
        {
            // The proof and the outputs are those of the run that is measured.
            place.environment.remove(PROOF);
            place.folder = folder.join("traced");
            if private::make_folder(&place.folder).is_ok() {
                place.peak_at_exit().into_iter().for_each(|bytes| ran.set_peak(bytes));
                let _ = fs::remove_dir_all(&place.folder);
            }
        }
        let _ = fs::remove_dir_all(&work);
        let recorded = ran.and_then(|mut ran| {
            let moments = std::mem::take(&mut ran.moments);
            let residents = std::mem::take(&mut ran.residents);
            let answer = self.judged(cell, program, ran, &proof)?;
            Ok(Recorded { answer: Measured { environment: given, ..answer }, moments, residents })
        });
        // A long output is kept only for the first run.
        let out = folder.join("stdout");
        if recorded.is_ok() && number > 1 && out.metadata().is_ok_and(|meta| meta.len() > MOST_EACH) {
            let _ = fs::remove_file(&out);
        }
        let _ = fs::remove_file(&proof);
        if !self.keep {
            let _ = fs::remove_dir_all(&folder);
        }
        recorded
    }

    /// The library that a candidate names by its path or by its name, if it is not ours.
    pub(super) fn library_of(&self, cell: &Cell) -> Option<PathBuf> {
        let named = cell.candidate.spec.name.strip_prefix(PRELOAD).map(PathBuf::from);
        named.or_else(|| self.others.get(&cell.allocator).map(|other| other.library.clone()))
    }

    /// The program's runtime, if the cell has settings for it.
    pub(super) fn runtime_of(&self, cell: &Cell) -> Option<&runtimes::ProgramRuntime> {
        self.runtime.as_ref().filter(|found| found.is_set_by(cell))
    }

    pub(super) fn version(&self, cell: &Cell) -> String {
        let described = self.candidates.iter().find(|known| known.allocator == cell.allocator);
        match self.library_of(cell) {
            Some(_) if self.others.contains_key(&cell.allocator) => {
                described.map_or(String::new(), |known| known.version.clone())
            }
            Some(path) => path.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned()),
            None => self.own_version.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use allocanary_rows::job::Job;
    use allocanary_rows::program::Program;

    #[test]
    fn the_program_and_a_library_that_a_candidate_names_have_builds() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("app"), "#!/bin/sh\n").unwrap();
        fs::write(at("lib.so"), "one").unwrap();
        let launcher = |executable: Option<PathBuf>| Launcher {
            libraries: BTreeMap::new(),
            others: BTreeMap::from([("tcmalloc".to_string(), Other { library: at("lib.so"), reader: "tcmalloc" })]),
            prover: None,
            candidates: Vec::new(),
            executable,
            runtime: None,
            own_version: String::new(),
            folder: PathBuf::new(),
            work: PathBuf::new(),
            keep: false,
            expected: Mutex::new(None),
            runs: AtomicU32::new(0),
            unspent: Unspent::default(),
        };
        let library = at("lib.so").display().to_string();
        let program = Program { command: vec!["./app".into()], ..Program::default() };
        let cell = |candidate: &str| Cell::new(candidate, "preload", Job::of_program(program.clone()));
        let cells = [cell("own"), cell(&format!("preload={library},env.A=1")), cell("preload=/no/such.so")];
        let named = Cell::new("tcmalloc", "tcmalloc", Job::of_program(program.clone()));
        assert_eq!(launcher(None).library_of(&named), Some(at("lib.so")));
        let builds = || launcher(Some(at("app"))).builds(cells.iter());
        let first = builds();
        assert_eq!(first.keys().collect::<Vec<_>>(), ["./app", library.as_str()]);
        fs::write(at("lib.so"), "two").unwrap();
        let second = builds();
        assert_eq!(first["./app"], second["./app"]);
        assert_ne!(first[&library], second[&library]);
        assert_eq!(launcher(None).builds(cells[..1].iter()), BTreeMap::new(), "nothing is known of the program");
    }
}
