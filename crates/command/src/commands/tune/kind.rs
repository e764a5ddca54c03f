//! Which kind of job is tuned: a built-in workload, a program, or a trace. In: flags. Out: its subject.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::subject::{TuneSubject, one_size};
use super::{program, trace, workload};
use crate::args::{PaceFlags, TuneFlags};
use crate::commands::run::only_study;
use allocanary_rows::error::{Error, Result};
use allocanary_rows::program::Program;
use allocanary_study::session::StudyFile;
use allocanary_trace::format::MAGIC;

/// The subject that the flags select; `None` if the user interrupted its first run.
pub fn subject(flags: &TuneFlags) -> Result<Option<TuneSubject>> {
    match kind(flags)? {
        Kind::Workload(file) => workload::subject(flags, one_size(file)?).map(Some),
        Kind::Trace(path) => trace::subject(flags, &path).map(Some),
        Kind::Program(file) => program::subject(flags, one_size(file)?),
    }
}

/// The three kinds of jobs.
enum Kind {
    Workload(StudyFile),
    Trace(PathBuf),
    Program(StudyFile),
}

/// Finds the kind of job, and refuses flags of another kind.
fn kind(flags: &TuneFlags) -> Result<Kind> {
    let asked = flags.measure.file();
    let wrong = |text: String| Err(Error::Input(text));
    let program = flags.program.over(Program::default());
    let flags_alone = Program { command: Vec::new(), ..program.clone() };
    let typed = flags_alone != Program::default();
    const NO_PROGRAM: &str = "flags of a program, such as --ready, --load or --stdin: wanted the program after `--`, as in \
                              `allocanary tune -- python3 script.py`, found none";
    let no_trace = || match typed_pace(&flags.how) {
        Some(flag) => Err(Error::Input(format!("{flag}: is for a trace, as in `allocanary tune FILE.trace`"))),
        None => Ok(()),
    };
    let Some(path) = &flags.file else {
        no_trace()?;
        return match (program.command.is_empty(), typed) {
            (false, _) => Ok(Kind::Program(StudyFile { program: Some(program), ..asked })),
            (true, true) => wrong(NO_PROGRAM.into()),
            (true, false) => Ok(Kind::Workload(asked)),
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
            // A replay settles too.
            None if Program { settle: None, ..flags_alone } != Program::default() => {
                wrong(format!("{shown} is a trace: {NO_PROGRAM}"))
            }
            None => Ok(Kind::Trace(path.clone())),
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
        None => Kind::Workload(study),
        Some(program) => Kind::Program(StudyFile { program: Some(program), ..study }),
    })
}

/// A flag of a replay that the user typed.
fn typed_pace(how: &PaceFlags) -> Option<&'static str> {
    let PaceFlags { pace, mark_at, touch } = how;
    let typed = [("--pace", pace.is_some()), ("--mark-at", mark_at.is_some()), ("--touch", touch.is_some())];
    typed.into_iter().find(|(_, typed)| *typed).map(|(flag, _)| flag)
}

/// Whether a file is a trace. Its first bytes say so; if it is empty or damaged, its name does.
fn is_trace(path: &Path) -> Result<bool> {
    let mut first = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAGIC.len() as u64).read_to_end(&mut first));
    read.map_err(|error| Error::file(path, "opening a trace or a study", error))?;
    Ok(first == MAGIC || path.extension().is_some_and(|extension| extension == "trace"))
}
