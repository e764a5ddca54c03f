//! `allocanary run`: the user's own program under each allocator. In: a program and flags, or a study file with a
//! `[program]` table. Out: rows, a report, a page, and the lines to paste for the best candidate.

pub mod candidates;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use super::measure::{self, Measurement};
use super::terminal;
use crate::args::ProgramFlags;
use allocanary_cell::Cell;
use allocanary_cell::description::Description;
use allocanary_cell::program::Program;
use allocanary_cell::sample::Answer;
use allocanary_cell::spec::{PRELOAD, Spec};
use allocanary_doctor::program::Program as Looked;
use allocanary_study::error::{Error, Result};
use allocanary_study::run::program::Launcher;
use allocanary_study::run::{Roster, Target};
use allocanary_study::summary::About;
use allocanary_study::{PROGRAM_CANDIDATES, Studies, StudyFile, plan};

/// Runs what the flags say.
pub fn run(flags: &ProgramFlags) -> Result<ExitCode> {
    let file = study(flags)?;
    let target = flags.run.out.as_deref().map(Target::of).transpose()?;
    run_study(file, target, &flags.run.cells, flags.resume)
}

/// The study of the flags: of a file or of a folder that is resumed, with each flag in place of its value.
fn study(flags: &ProgramFlags) -> Result<StudyFile> {
    let resumed = match (&flags.run.out, flags.resume) {
        (None, true) => return Err(Error::Input("--resume: wanted --out with the folder of the run to finish".into())),
        (Some(out), true) => Some(Path::new(out).join("study.toml")),
        _ => None,
    };
    let file = flags.service.file.clone().or(resumed.filter(|_| flags.program.is_empty()));
    let asked = flags.study();
    let file = match file {
        None => asked,
        Some(path) => {
            let study = only_study(&path)?;
            if study.program.is_none() && flags.program.is_empty() {
                let path = path.display();
                return Err(Error::Input(format!(
                    "{path}: there is no [program] table: `allocanary study {path}` runs it"
                )));
            }
            let program = flags.over(study.program.clone().unwrap_or_default());
            StudyFile { program: Some(program), ..study.overridden_by(StudyFile { program: None, ..asked }) }
        }
    };
    Ok(file)
}

/// The study of a file that has one.
pub fn only_study(path: &Path) -> Result<StudyFile> {
    let mut studies = Studies::read(path)?;
    let (Some(study), true) = (studies.0.pop(), studies.0.is_empty()) else {
        return Err(Error::Input(format!("{}: wanted one study with a [program] table", path.display())));
    };
    Ok(study)
}

/// Runs a study with a `[program]` table.
pub fn run_study(file: StudyFile, target: Option<Target>, folders: &[PathBuf], resume: bool) -> Result<ExitCode> {
    // Invalid values are reported before anything is looked at.
    file.clone().check()?;
    About::of(&file)?;
    let program = file.program.clone().unwrap_or_default();
    let name = &program.command[0];
    let looked = Looked::look_at(name).map_err(Error::Input)?;
    let cells = measure::roster(folders)?.descriptions();
    let file = with_candidates(file, &looked)?;
    let candidates = candidates::described(&cells, &looked);
    let libraries = candidates::libraries(&file, folders)?;
    let place = std::env::temp_dir().join(format!("allocanary-{}", std::process::id()));
    let mut launcher = Launcher {
        libraries,
        candidates: candidates.clone(),
        own_version: looked.own.name().to_string(),
        folder: place.join("trial"),
        work: place.clone(),
        keep: true,
        expected: Mutex::new(None),
        runs: AtomicU32::new(0),
    };
    let study = file.clone().check()?;
    let cells = plan(&study, &candidates)?;
    refuse(&cells, &looked)?;
    let first = cells.iter().find(|cell| cell.place == 0).cloned();
    let tried = first.as_ref().map(|first| trial(&launcher, first, &study));
    let _ = std::fs::remove_dir_all(&place);
    if measure::watch_interrupts().load(Ordering::Relaxed) {
        terminal::tell("interrupted: nothing was measured");
        return Ok(ExitCode::from(130));
    }
    let tried = tried.transpose()?.unwrap_or_default();
    let mut file = file;
    if tried.output_varies {
        let baseline = first.map_or(String::new(), |first| first.candidate);
        terminal::tell(format_args!(
            "the program's output differs from run to run under {baseline}: outputs are not compared; --check COMMAND tells what \
             must hold"
        ));
        file.program = Some(Program { any_output: true, ..program.clone() });
    }
    let name = Path::new(name).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let target = target.unwrap_or(Target::Fresh(name)).make()?;
    match &target {
        Target::Folder(folder) => launcher.folder = folder.join("cells"),
        _ => (launcher.folder, launcher.keep) = (place.join("cells"), false),
    }
    launcher.runs = AtomicU32::new(0);
    let candidates = candidates.into_iter().map(|candidate| timed(candidate, tried.seconds));
    let roster =
        Roster { cells: candidates.map(|candidate| (candidate, PathBuf::new())).collect(), ..Roster::default() };
    let group = Studies(vec![file]);
    let ended = Measurement { group: &group, roster: &roster, target, resume, launcher: Some(&launcher) }.run();
    let _ = std::fs::remove_dir_all(place);
    ended
}

/// The study with the default candidates, if it names none: those that can take effect.
fn with_candidates(file: StudyFile, looked: &Looked) -> Result<StudyFile> {
    if file.candidates.is_some() {
        return Ok(file);
    }
    let ours = PROGRAM_CANDIDATES.iter().map(|name| name.to_string());
    let all: Vec<String> = match &looked.cannot {
        None if file.cores.is_some() => ours.filter(|name| !name.starts_with("own")).collect(),
        None => ours.collect(),
        Some(reason) => {
            let own = candidates::own_settings(looked).iter().map(|settings| format!("own:{settings}"));
            let all: Vec<String> = std::iter::once("own".to_string()).chain(own).collect();
            terminal::tell(format_args!("{reason}; so only its own allocator is measured: {}", all.join(" ")));
            all
        }
    };
    Ok(StudyFile { candidates: Some(all), ..file })
}

/// Fails if a candidate is preloaded into a program in which that has no effect.
pub fn refuse(cells: &[Cell], looked: &Looked) -> Result<()> {
    let Some(reason) = &looked.cannot else { return Ok(()) };
    match cells.iter().find(|cell| cell.allocator != "own") {
        None => Ok(()),
        Some(cell) => Err(Error::Input(format!(
            "candidate `{}`: {reason}: leave out --candidates, or name only `own` and own:SETTING=VALUE",
            cell.candidate
        ))),
    }
}

/// What the runs before the study tell.
#[derive(Default)]
struct Tried {
    /// How long a cell takes.
    seconds: f64,
    /// Two runs had different outputs.
    output_varies: bool,
}

/// One run of the first candidate that is not measured. It warms the page cache, tells how long a cell takes, and finds
/// mistakes before the study begins. A short program runs twice: where its output differs, it is not compared.
fn trial(launcher: &Launcher, first: &Cell, study: &allocanary_study::Study) -> Result<Tried> {
    const SHORT: f64 = 3.0;
    let interrupted = measure::watch_interrupts();
    let once = |launcher: &Launcher| -> Result<(Answer, f64)> {
        let (ran, wall) = launcher.run(first, study.deadline, interrupted);
        let ran = ran.map_err(|failure| {
            Error::Input(format!("a first run of the program, under {}, failed: {}", first.candidate, failure.text))
        })?;
        Ok((ran, wall.as_secs_f64()))
    };
    let expected = || launcher.expected.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let any = first.program.as_ref().is_some_and(|program| program.any_output);
    let (answer, seconds) = once(launcher)?;
    let Some(output) = answer.output.filter(|_| seconds < SHORT && !any) else {
        return Ok(Tried { seconds, output_varies: false });
    };
    let first_output = expected().take();
    let (again, second) = once(launcher)?;
    let output_varies = again.output != Some(output);
    *expected() = first_output.filter(|_| !output_varies);
    Ok(Tried { seconds: seconds.min(second), output_varies })
}

/// A description whose jobs take that long.
fn timed(mut candidate: Description, seconds: f64) -> Description {
    if let Some(job) = candidate.workloads.first_mut() {
        job.seconds = seconds;
    }
    candidate
}

/// Whether a candidate is a library of somebody else's.
fn is_library(candidate: &str) -> bool {
    Spec::parse(candidate).is_ok_and(|spec| spec.name.starts_with(PRELOAD))
}
