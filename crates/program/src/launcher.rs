//! What all cells of a program have in common: where the preloaded libraries are, how settings reach them, and the output
//! that all candidates must have. In: a cell. Out: its answer or its failure.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::around::signal_number;
use super::build::build_of;
use super::huge_pages;
use super::proof::{BUDGET, Library};
use super::{
    ContainerLimits, Interrupted, Ran, Ready, Residents, RunContext, Unspent, Wanted, fail, proof, runtimes, variables,
};
use allocanary_allocators::setting::{Kind, Setting};
use allocanary_cell::Cell;
use allocanary_cell::description::Description;
use allocanary_cell::program::{CORES_SEEN, Output, Program};
use allocanary_cell::sample::{Answer, Failure, FailureKind};
use allocanary_cell::workload::Phase;
use allocanary_kernel::units::{parse_bytes, parse_duration};
use allocanary_kernel::{private, sys};
use allocanary_measure::metrics::MOST_NAMED;
use allocanary_spec::{Candidate, PRELOAD, PROCESS_THP};

/// The variables of the contract with our preloaded libraries.
const PROOF: &str = "ALLOCANARY_PROOF";
const CORES: &str = "ALLOCANARY_CORES";
const SETTINGS: &str = "ALLOCANARY_PRELOAD";
const PROVE: &str = "ALLOCANARY_PROVE";
/// The setting that makes idle threads give back.
pub const THREAD_IDLE: &str = "thread_idle";

/// The length of a standard output that is kept for each cell.
const MOST_EACH: u64 = 1 << 20;

/// Starts programs.
pub struct Launcher {
    /// The library of each allocator, by name.
    pub libraries: BTreeMap<String, PathBuf>,
    /// The libraries of others that candidates name, by these names.
    pub others: BTreeMap<String, Other>,
    /// Our library that asks those of others; `None` if no candidate is one.
    pub prover: Option<PathBuf>,
    /// The candidates as descriptions: their tables of settings, and how these reach them.
    pub candidates: Vec<Description>,
    /// The program's file; `None` if it is not known, and its build is not told then.
    pub executable: Option<PathBuf>,
    /// The program's runtime, if it is one with settings.
    pub runtime: Option<runtimes::Found>,
    /// The version of the program's own allocator, as far as it is known.
    pub own_version: String,
    /// The folder with a folder for the files of each run.
    pub folder: PathBuf,
    /// The folder with the empty folder that each run gets.
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

/// A library of others.
#[derive(Clone, Debug, PartialEq)]
pub struct Other {
    /// Where it is.
    pub library: PathBuf,
    /// How it is asked, as our library knows it.
    pub reader: &'static str,
}

/// Adds a recorder's variables to the environment of a program.
pub type AddsVariables<'a> = &'a dyn Fn(&mut BTreeMap<String, String>) -> Result<(), String>;

/// A recorder of a program.
#[derive(Clone, Copy)]
pub struct Recorder<'a> {
    /// Adds its variables to the environment of the program.
    pub environment: AddsVariables<'a>,
    /// Gets what was read of a run that is interrupted.
    pub interrupted: &'a Mutex<Interrupted>,
    /// Whether the resident pages are read: only a trace with stacks has a place for them.
    pub reads_pages: bool,
}

/// A run that was recorded.
pub struct Recorded {
    /// What was measured.
    pub answer: Answer,
    /// When each mark was set, in nanoseconds of the monotonic clock.
    pub moments: Vec<(Phase, u64)>,
    /// The resident pages of each process at the marks of a service.
    pub residents: Vec<Residents>,
}

impl Launcher {
    /// Runs a cell.
    pub fn run(&self, cell: &Cell, deadline: Duration, stop: &AtomicBool) -> (Result<Answer, Failure>, Duration) {
        let started = Instant::now();
        let ran = self.record(cell, None, deadline, stop);
        (ran.map(|ran| ran.answer), started.elapsed())
    }

    /// The builds of the user's files in `cells`, by the names that the user gave: of the program, and of libraries that
    /// candidates name by their paths.
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
        recorder: Option<Recorder>,
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
        let place = RunContext {
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
        let ran = place.run();
        let _ = fs::remove_dir_all(&work);
        let recorded = ran.and_then(|mut ran| {
            let moments = std::mem::take(&mut ran.moments);
            let residents = std::mem::take(&mut ran.residents);
            let answer = self.judged(cell, program, ran, &proof)?;
            Ok(Recorded { answer: Answer { environment: given, ..answer }, moments, residents })
        });
        // A long output that is equal to the first is kept once.
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

    /// Adds what is proven, and compares the output.
    fn judged(&self, cell: &Cell, program: &Program, ran: Ran, proof: &Path) -> Result<Answer, Failure> {
        let mut answer = ran.answer;
        let other = self.others.get(&cell.allocator).filter(|_| self.prover.is_some());
        let known = self.version(cell);
        let preloaded = match other {
            Some(other) => Some(Library::Other { path: &other.library, version: &known }),
            None => self.libraries.contains_key(&cell.allocator).then_some(Library::Ours),
        };
        if let Some(preloaded) = preloaded {
            let lines = proof::read(proof);
            if lines.is_empty() {
                proof::check_room(proof)?;
            }
            let (main, name) = &ran.main;
            // A process that lived shorter than a sample was not seen: then the last process that loaded the library is it.
            let unseen = lines.iter().rev().find(|line| line.at == "load").filter(|_| name.is_empty());
            let main = unseen.map_or(*main, |line| line.pid);
            let proven = proof::check(cell, &lines, main, name, &ran.complaint, preloaded)?;
            answer.version = proven.version;
            answer.found = proven.found;
            answer.unproven = proven.unproven;
            if let Some(exit) = proven.exit {
                let marks = answer.phases.len();
                for (name, value) in [
                    ("heap_allocated_bytes", exit.allocated),
                    ("heap_active_bytes", exit.active),
                    ("heap_resident_bytes", exit.resident),
                    ("heap_metadata_bytes", exit.metadata),
                    ("heap_arenas", exit.arenas),
                ] {
                    let mut column = vec![None; marks];
                    if let Some(last) = column.last_mut() {
                        *last = value;
                    }
                    answer.readings.insert(name.into(), column);
                }
            }
        } else {
            answer.version = known;
            let why = match cell.allocator.as_str() {
                "own" => "the program's own allocator does not say what it took",
                _ => "a library of somebody else's cannot say what it took",
            };
            answer.unproven = cell.settings.keys().map(|name| (name.clone(), why.to_string())).collect();
            if let Some(library) = self.library_of(cell) {
                in_effect(&library, ran.mapped, program.is_service(), &mut answer.unproven)?;
            }
        }
        match huge_pages::proof(cell, &ran.huge_pages)? {
            None => {}
            Some(Ok(found)) => {
                answer.unproven.remove(PROCESS_THP);
                answer.found.insert(PROCESS_THP.into(), found);
            }
            Some(Err(why)) => drop(answer.unproven.insert(PROCESS_THP.into(), why)),
        }
        if let Some(found) = self.runtime_of(cell) {
            for (name, said) in runtimes::proof(cell, found, ran.runtime.as_ref(), ran.main.0)? {
                match said {
                    Ok(value) => {
                        answer.unproven.remove(&name);
                        answer.found.insert(name, value);
                    }
                    Err(why) => drop(answer.unproven.insert(name, why)),
                }
            }
        }
        if cell.cores.is_some() && !self.libraries.contains_key(&cell.allocator) {
            answer
                .unproven
                .insert("cores".into(), "only our own preloads tell a program another number of cores".into());
            answer.notes.insert(CORES_SEEN.into(), sys::affinity().into());
        }
        self.compare(cell, program, &answer)?;
        answer.found.extend(
            cell.settings
                .iter()
                .filter(|(name, _)| answer.unproven.contains_key(*name))
                .map(|(name, value)| (name.clone(), value.clone())),
        );
        Ok(answer)
    }

    /// Fails if a program that ends wrote something else than the other candidates. Where the user's check has decided about an
    /// output, this does not.
    fn compare(&self, cell: &Cell, program: &Program, answer: &Answer) -> Result<(), Failure> {
        let Some(output) = answer.output.as_ref().filter(|_| program.compares_output()) else { return Ok(()) };
        let mut expected = self.expected.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        match &*expected {
            None => *expected = Some((cell.candidate.clone(), output.clone())),
            Some((_, known)) if known == output => {}
            Some((first, known)) => {
                return fail(
                    FailureKind::Corrupt,
                    format!(
                        "its output differs from that under {first}: wanted {} bytes ({}), found {} bytes ({}); if it differs \
                         from run to run, add --any-output, or --check for what must hold",
                        known.bytes, known.digest, output.bytes, output.digest
                    ),
                );
            }
        }
        Ok(())
    }

    /// The library of somebody else's that a candidate names, by its path or by its name.
    fn library_of(&self, cell: &Cell) -> Option<PathBuf> {
        let named = cell.candidate.spec.name.strip_prefix(PRELOAD).map(PathBuf::from);
        named.or_else(|| self.others.get(&cell.allocator).map(|other| other.library.clone()))
    }

    /// The program's runtime, if the cell has settings of it.
    fn runtime_of(&self, cell: &Cell) -> Option<&runtimes::Found> {
        self.runtime.as_ref().filter(|found| found.is_set_by(cell))
    }

    fn version(&self, cell: &Cell) -> String {
        let described = self.candidates.iter().find(|known| known.allocator == cell.allocator);
        match self.library_of(cell) {
            Some(_) if self.others.contains_key(&cell.allocator) => {
                described.map_or(String::new(), |known| known.version.clone())
            }
            Some(path) => path.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned()),
            None => self.own_version.clone(),
        }
    }

    /// The environment of the program: the user's, with the library and its settings.
    fn environment(&self, cell: &Cell, proof: &Path) -> Result<BTreeMap<String, String>, String> {
        let mut all = variables::texts();
        let described = self.candidates.iter().find(|known| known.allocator == cell.allocator);
        let library = self.library_of(cell).or_else(|| self.libraries.get(&cell.allocator).cloned());
        if let Some(library) = &library {
            // What the user's environment says to allocators belongs to the program as it comes, and to that alone.
            all.retain(|name, _| name != SETTINGS && !self.candidates.iter().any(|known| known.environment.owns(name)));
            let library = library.display().to_string();
            // Before the other one: the loader runs its constructor last.
            let library = match (self.others.get(&cell.allocator), &self.prover) {
                (Some(other), Some(prover)) => {
                    all.insert(PROOF.into(), proof.display().to_string());
                    all.insert(PROVE.into(), asked(cell, other.reader, described.map_or(&[], |known| &known.settings)));
                    format!("{}:{library}", prover.display())
                }
                _ => library,
            };
            let before = all.get("LD_PRELOAD").filter(|before| !before.is_empty());
            let preload = before.map_or(library.clone(), |before| format!("{library}:{before}"));
            all.insert("LD_PRELOAD".into(), preload);
        }
        if self.libraries.contains_key(&cell.allocator) {
            all.insert(PROOF.into(), proof.display().to_string());
            if let Some(cores) = cell.cores {
                all.insert(CORES.into(), cores.to_string());
            }
        }
        let mut settings = cell.settings.clone();
        settings.remove(PROCESS_THP);
        if let Some(found) = self.runtime_of(cell) {
            found.add_to(&mut all, &mut settings);
        }
        let of_preloads = [(THREAD_IDLE, "idle"), (BUDGET, BUDGET)];
        let of_preloads = of_preloads.map(|(name, key)| Some(format!("{key}={}", settings.remove(name)?)));
        let of_preloads: Vec<String> = of_preloads.into_iter().flatten().collect();
        if !of_preloads.is_empty() {
            all.insert(SETTINGS.into(), of_preloads.join(","));
        }
        // Our preloads see to it themselves. What the user's environment says of this setting would hold on such a host too.
        if cell.allocator == "own"
            && let Some((described, cores)) = described.zip(cell.cores)
            && let Some(per_core) = &described.per_core
            && !described.environment.assignments(&all).iter().any(|one| one.name == per_core.setting)
        {
            settings.entry(per_core.setting.to_string()).or_insert(per_core.on(cores).to_string());
        }
        if cell.candidate.spec.name.starts_with(PRELOAD) {
            for (name, value) in &settings {
                let name = name
                    .strip_prefix("env.")
                    .ok_or_else(|| format!("candidate `{}`: wanted env.NAME=VALUE, found `{name}`", cell.candidate))?;
                all.insert(name.to_string(), value.clone());
            }
        } else if let Some(described) = described {
            described.environment.add_to(&mut all, &settings);
        } else if !settings.is_empty() {
            return Err(format!("candidate `{}`: no settings of {} are known", cell.candidate, cell.allocator));
        }
        Ok(all)
    }
}

/// Whether a library of somebody else's was in the process with the most memory. A service was looked at when it was idle; a program
/// that ends may have ended before.
fn in_effect(
    library: &Path,
    mapped: Option<bool>,
    is_service: bool,
    unproven: &mut BTreeMap<String, String>,
) -> Result<(), Failure> {
    let library = library.display();
    match mapped {
        Some(true) => Ok(()),
        Some(false) if is_service => fail(
            FailureKind::Setting,
            format!(
                "{library}: wanted among the mappings of the process with the most memory, found none: the program changes its \
                 environment, or the loader dropped the library"
            ),
        ),
        _ => {
            let why = format!(
                "{library} was not seen among the mappings of the process with the most memory: it may have ended before"
            );
            unproven.insert("LD_PRELOAD".into(), why);
            Ok(())
        }
    }
}

/// What our library asks one of others: `jemalloc@5.3.0 jemalloc narenas=number tcache=flag`.
fn asked(cell: &Cell, reader: &str, settings: &[Setting]) -> String {
    let settings = settings.iter().filter(|setting| cell.settings.contains_key(setting.name.as_ref()));
    let each = settings.filter(|setting| setting.name != PROCESS_THP).map(|setting| {
        let kind = match setting.kind {
            Kind::Flag => "flag",
            Kind::Number { .. } => "number",
            Kind::Size { .. } => "size",
            Kind::Choice { .. } | Kind::Text | Kind::Path => "word",
        };
        format!("{}={kind}", setting.name)
    });
    [cell.allocator.clone(), reader.into()].into_iter().chain(each).collect::<Vec<_>>().join(" ")
}

/// The variables that differ from ours, but for those of our contract with the library, and without the library that only asks.
fn given(environment: &BTreeMap<String, String>, prover: Option<&Path>) -> BTreeMap<String, String> {
    let ours = |name: &str| [PROOF, CORES, PROVE].contains(&name);
    let differs = |(name, value): &(&String, &String)| !ours(name) && std::env::var(name).ok().as_ref() != Some(*value);
    let prover = prover.map(|prover| format!("{}:", prover.display()));
    let without =
        |value: &String| prover.as_ref().and_then(|prover| value.strip_prefix(prover)).unwrap_or(value).into();
    environment.iter().filter(differs).map(|(name, value)| (name.clone(), without(value))).collect()
}

/// A port that is free now.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0");
    listener.and_then(|listener| listener.local_addr()).map_or(0, |address| address.port())
}

fn filled(text: &str, port: u16, folder: &Path) -> String {
    text.replace("{port}", &port.to_string()).replace("{dir}", &folder.display().to_string())
}

fn filled_all(all: BTreeMap<String, String>, fill: impl Fn(&str) -> String) -> BTreeMap<String, String> {
    let used = |value: &String| value.contains("{port}") || value.contains("{dir}");
    all.into_iter().map(|(name, value)| (name, if used(&value) { fill(&value) } else { value })).collect()
}

fn with(program: &Program, fill: impl Fn(&str) -> String) -> Program {
    let some = |text: &Option<String>| text.as_deref().map(&fill);
    Program {
        command: program.command.iter().map(|word| fill(word)).collect(),
        stdin: some(&program.stdin),
        check: some(&program.check),
        before: some(&program.before),
        after: some(&program.after),
        ready: some(&program.ready),
        load: some(&program.load),
        ..program.clone()
    }
}

/// The limits of a program's control group.
pub fn limits(program: &Program) -> Result<ContainerLimits, String> {
    let memory = program.memory.as_deref().map(|text| {
        let bytes = parse_bytes(text).filter(|bytes| *bytes >= 1 << 20);
        bytes.ok_or_else(|| format!("--memory: wanted a size of 1MiB or more, such as 256MiB, found `{text}`"))
    });
    let cpus = program.cpus.as_deref().map(|text| {
        let cpus = text.trim().parse::<f64>().ok().filter(|cpus| (0.01..=100_000.0).contains(cpus));
        cpus.ok_or_else(|| format!("--cpus: wanted a number of CPUs from 0.01, such as 0.5, found `{text}`"))
    });
    Ok(ContainerLimits { memory: memory.transpose()?, cpus: cpus.transpose()? })
}

/// Checks a program's values, before anything is started.
pub fn check(program: &Program) -> Result<(), String> {
    if program.command.first().is_none_or(String::is_empty) {
        return Err("wanted a program after `--`, as in `allocanary run -- python3 script.py`, found none".into());
    }
    limits(program)?;
    program.ready.as_deref().map(Ready::parse).transpose()?;
    if let Some(text) = program.settle.as_deref().filter(|text| parse_duration(text).is_none()) {
        return Err(format!("--settle: wanted a time such as 5s, found `{text}`"));
    }
    if let Some(text) = program.stop.as_deref().filter(|text| signal_number(text).is_none()) {
        return Err(format!("--stop: wanted a signal such as SIGTERM, found `{text}`"));
    }
    let service = [("--settle", &program.settle), ("--stop", &program.stop)];
    if let Some((flag, _)) = service.into_iter().find(|(_, value)| value.is_some() && !program.is_service()) {
        return Err(format!("{flag}: is for a service: add --ready or --load, or leave it out"));
    }
    if program.check.is_some() && program.is_service() {
        return Err("--check: is for a program that ends: a service's load can check its answers and fail".into());
    }
    if !program.metric.is_empty() && program.is_service() && program.load.is_none() {
        return Err("--metric: is read from the output of --load, and there is none".into());
    }
    if program.metric.len() > MOST_NAMED {
        return Err(format!(
            "--metric: wanted at most {MOST_NAMED} metrics, found {}: leave some out",
            program.metric.len()
        ));
    }
    let mut names = BTreeSet::new();
    for (key, expression) in &program.metric {
        let wanted = Wanted::parse(key, expression)?;
        if !names.insert(wanted.name.clone()) {
            return Err(format!("--metric: `{}` stands twice", wanted.name));
        }
    }
    if let Some(path) = program.stdin.as_deref().filter(|path| !path.contains('{')) {
        let meta = fs::metadata(path).map_err(|error| format!("--stdin {path}: {error}"))?;
        if meta.is_dir() {
            return Err(format!("--stdin {path}: wanted a file, found a folder"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use allocanary_cell::job::Job;

    #[test]
    fn bad_values_are_refused_by_their_flag() {
        let base = || Program { command: vec!["true".into()], ..Program::default() };
        let text = |text: &str| Some(text.to_string());
        let metric = |key: &str| BTreeMap::from([(key.to_string(), "(x)".to_string())]);
        assert_eq!(check(&base()), Ok(()));
        let metrics = |count| (0..count).map(|at| (format!("x{at}"), "(x)".to_string())).collect();
        assert_eq!(check(&Program { metric: metrics(300), ..base() }), Ok(()));
        for (program, said) in [
            (Program { command: vec![], ..base() }, "wanted a program after `--`"),
            (Program { memory: text("4"), ..base() }, "--memory: wanted a size"),
            (Program { cpus: text("none"), ..base() }, "--cpus: wanted a number"),
            (Program { ready: text("tcp:x"), ..base() }, "--ready: wanted tcp:PORT"),
            (Program { settle: text("soon"), ready: text("line:x"), ..base() }, "--settle: wanted a time"),
            (Program { stop: text("SIGNONE"), ready: text("line:x"), ..base() }, "--stop: wanted a signal"),
            (Program { settle: text("5s"), ..base() }, "--settle: is for a service"),
            (Program { check: text("true"), ready: text("line:x"), ..base() }, "--check: is for a program that ends"),
            (Program { metric: metric("x"), ready: text("line:x"), ..base() }, "--metric: is read from the output"),
            (Program { metric: metrics(301), ..base() }, "--metric: wanted at most 300 metrics, found 301"),
            (Program { stdin: text("/no/such"), ..base() }, "--stdin /no/such: No such file"),
            (Program { stdin: text("/"), ..base() }, "--stdin /: wanted a file"),
        ] {
            let error = check(&program).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }

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

    #[test]
    fn a_library_that_an_idle_service_does_not_have_is_a_failure_and_one_that_was_not_seen_is_unproven() {
        let found = |mapped, is_service| {
            let mut unproven = BTreeMap::new();
            in_effect(Path::new("/lib/x.so"), mapped, is_service, &mut unproven).map(|()| unproven.len())
        };
        assert_eq!((found(Some(true), true), found(Some(true), false)), (Ok(0), Ok(0)));
        assert_eq!((found(Some(false), false), found(None, false), found(None, true)), (Ok(1), Ok(1), Ok(1)));
        let failure = found(Some(false), true).unwrap_err();
        assert!(
            failure.kind == FailureKind::Setting && failure.text.starts_with("/lib/x.so: wanted among"),
            "{failure:?}"
        );
    }

    #[test]
    fn a_library_of_others_is_asked_for_its_settings_and_the_row_names_that_library_alone() {
        let settings = [
            Setting::new("release_rate", Kind::Number { min: 0, max: 10 }, ""),
            Setting::new("heap_limit_mb", Kind::Number { min: 0, max: 10 }, ""),
            huge_pages::setting(),
        ];
        let mut cell = Cell::new("tcmalloc", "tcmalloc", Job::of_program(Program::default()));
        cell.settings = [("release_rate", "2"), (PROCESS_THP, "never")]
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .into();
        assert_eq!(asked(&cell, "tcmalloc", &settings), "tcmalloc tcmalloc release_rate=number");
        assert_eq!(asked(&cell, "mesh", &[]), "tcmalloc mesh");
        let all = [("LD_PRELOAD", "/a/preload-prove:/b/lib.so:/c.so"), (PROVE, "x"), (PROOF, "y")];
        let all = all.map(|(name, value)| (name.to_string(), value.to_string())).into();
        let row = given(&all, Some(Path::new("/a/preload-prove")));
        assert_eq!(row, BTreeMap::from([("LD_PRELOAD".to_string(), "/b/lib.so:/c.so".to_string())]));
    }

    #[test]
    fn a_port_and_a_folder_are_filled_in() {
        assert_eq!(
            filled("x --port {port} --dir {dir}/a {other}", 7, Path::new("/d")),
            "x --port 7 --dir /d/a {other}"
        );
        assert!(free_port() > 0);
    }
}
