//! What is tuned: a built-in workload, a program, or a trace. In: flags. Out: a study without candidates, the allocators
//! to search, what the user has now, and what the answer holds for.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::{program, trace, workload};
use crate::args::{PaceFlags, TuneFlags};
use crate::commands::run::only_study;
use crate::commands::run::started::Started;
use allocanary_cell::description::Description;
use allocanary_cell::program::Program;
use allocanary_cell::spec::Spec;
use allocanary_kernel::sys;
use allocanary_search::Goal;
use allocanary_search::space::Rest;
use allocanary_study::error::{Error, Result};
use allocanary_study::run::Roster;
use allocanary_study::{Study, StudyFile};
use allocanary_trace::format::MAGIC;

/// What is tuned.
pub struct Subject {
    /// What shall be less, and what may get worse.
    pub goal: Goal,
    /// The job, with one candidate that the search replaces.
    pub file: StudyFile,
    /// What runs it.
    pub roster: Roster,
    /// What starts the user's program, if it is about one.
    pub started: Option<Started>,
    /// The allocators of the space.
    pub serving: Vec<Description>,
    /// Those of them to search; `None` for all.
    pub allocators: Option<Vec<String>>,
    /// The allocator that the candidate `own` is, if it is one of ours.
    pub own: Option<&'static str>,
    /// What the user has now.
    pub present: Spec,
    /// The time that a setting has to act.
    pub rest: Rest,
    /// What was measured, and its size.
    pub job: String,
    /// For what the answer holds, in a sentence.
    pub holds: &'static str,
}

impl Subject {
    /// What the flags select; `None` if the user interrupted its first run.
    pub fn of(flags: &TuneFlags) -> Result<Option<Subject>> {
        match input(flags)? {
            Input::Workload(file) => workload::subject(flags, one_size(file)?).map(Some),
            Input::Trace(path) => trace::subject(flags, &path).map(Some),
            Input::Program(file) => program::subject(flags, one_size(file)?),
        }
    }

    /// The number of cores that the candidates see.
    pub fn cores(&self) -> u32 {
        self.file.cores.as_ref().and_then(|cores| cores.first().copied()).unwrap_or_else(sys::affinity)
    }
}

/// What the user has now.
pub fn present(flags: &TuneFlags, default: &str) -> Result<Spec> {
    Spec::parse(flags.present.as_deref().unwrap_or(default))
        .map_err(|problem| Error::Input(format!("--present: {problem}")))
}

/// ` on 40 emulated cores`.
pub fn on_cores(study: &Study) -> String {
    study.hosts[0].cores.map_or(String::new(), |cores| format!(" on {cores} emulated cores"))
}

/// The three kinds of jobs.
enum Input {
    Workload(StudyFile),
    Trace(PathBuf),
    Program(StudyFile),
}

/// Tells what the flags are about, and refuses flags of another kind of job.
fn input(flags: &TuneFlags) -> Result<Input> {
    let asked = flags.measure.file();
    let wrong = |text: String| Err(Error::Input(text));
    let program = flags.program.over(Program::default());
    let typed = Program { command: Vec::new(), ..program.clone() } != Program::default();
    const NO_PROGRAM: &str = "flags of a program, such as --ready, --load or --stdin: wanted the program after `--`, as in \
                              `allocanary tune -- python3 script.py`, found none";
    let no_trace = || match typed_pace(&flags.how) {
        Some(flag) => Err(Error::Input(format!("{flag}: is for a trace, as in `allocanary tune FILE.trace`"))),
        None => Ok(()),
    };
    let Some(path) = &flags.file else {
        no_trace()?;
        return match (program.command.is_empty(), typed) {
            (false, _) => Ok(Input::Program(StudyFile { program: Some(program), ..asked })),
            (true, true) => wrong(NO_PROGRAM.into()),
            (true, false) => Ok(Input::Workload(asked)),
        };
    };
    let shown = path.display();
    if !program.command.is_empty() {
        return wrong(format!("{shown}: wanted a file or a program after `--`, found both"));
    }
    if is_trace(path)? {
        let own = [("--workloads", asked.workloads.is_some()), ("--threads", asked.threads.is_some())];
        return match own.into_iter().find(|(_, given)| *given) {
            Some((flag, _)) => wrong(format!("{flag}: {shown} is a trace, which has its own: leave it out")),
            None if typed => wrong(format!("{shown} is a trace: {NO_PROGRAM}")),
            None => Ok(Input::Trace(path.clone())),
        };
    }
    no_trace()?;
    if path.extension().is_none_or(|extension| extension != "toml") {
        return wrong(format!(
            "{shown}: wanted a trace of `allocanary record`, or a study file (*.toml), found neither; a program stands after \
             `--`, as in `allocanary tune -- {shown}`"
        ));
    }
    let study = only_study(path)?;
    let read = study.program.clone().map(|program| flags.program.over(program));
    if read.is_none() && typed {
        return wrong(format!("{shown}: there is no [program] table: {NO_PROGRAM}"));
    }
    let study = StudyFile { full: Vec::new(), published: Vec::new(), ..study.overridden_by(asked) };
    Ok(match read {
        None => Input::Workload(study),
        Some(program) => Input::Program(StudyFile { program: Some(program), ..study }),
    })
}

/// A flag of a replay that the user typed.
fn typed_pace(how: &PaceFlags) -> Option<&'static str> {
    let PaceFlags { pace, mark_at, touch, idle } = how;
    let typed = [
        ("--pace", pace.is_some()),
        ("--mark-at", mark_at.is_some()),
        ("--touch", touch.is_some()),
        ("--idle", idle.is_some()),
    ];
    typed.into_iter().find(|(_, typed)| *typed).map(|(flag, _)| flag)
}

/// Whether a file is a trace: by its first bytes, or by its name if it is empty or damaged.
fn is_trace(path: &Path) -> Result<bool> {
    let mut first = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAGIC.len() as u64).read_to_end(&mut first));
    read.map_err(|error| Error::file(path, "opening a trace or a study", error))?;
    Ok(first == MAGIC || path.extension().is_some_and(|extension| extension == "trace"))
}

/// The study, if it is one workload on one size of host.
pub fn one_size(file: StudyFile) -> Result<StudyFile> {
    let counts = [
        ("workloads", file.workloads.as_ref().map_or(0, Vec::len)),
        ("threads", file.threads.as_ref().map_or(0, Vec::len)),
        ("cores", file.cores.as_ref().map_or(0, Vec::len)),
    ];
    match counts.into_iter().find(|(_, count)| *count > 1) {
        None => Ok(file),
        Some((what, count)) => Err(Error::Input(format!(
            "--{what}: wanted one, found {count}: settings are found for one workload on one size of host"
        ))),
    }
}
