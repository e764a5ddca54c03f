//! `allocanary run`: the user's own program under each allocator. In: a program and flags, or a study file with a
//! `[program]` table. Out: rows, a report, a page, and the lines to paste for the best candidate.

pub mod candidates;
pub mod started;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::cells;
use super::measure::MeasureRun;
use super::output::VerbOutput;
use super::terminal;
use crate::args::{ProgramStudyFlags, RunFlags};
use allocanary_doctor::program::StartableProgram;
use allocanary_measure::metrics::Metrics;
use allocanary_rows::Cell;
use allocanary_rows::PROCESS_THP;
use allocanary_rows::description::Description;
use allocanary_rows::error::Error;
use allocanary_rows::error::Result;
use allocanary_rows::program::Program;
use allocanary_study::program::huge_pages;
use allocanary_study::program::runtimes;
use allocanary_study::session::Studies;
use allocanary_study::session::StudyFile;
use allocanary_study::session::StudyFiles;
use allocanary_study::session::plan;
use allocanary_study::session::program_candidates;
use allocanary_sys::private;
use allocanary_text::paste::CommandLine;
use started::Started;

/// Does what the flags request.
pub fn run(flags: &ProgramStudyFlags) -> Result<ExitCode> {
    let file = study(flags)?;
    let target = flags.rows.target(&flags.run)?;
    let output = VerbOutput::of_tables("run", &flags.tables, std::slice::from_ref(&file))?;
    run_study(file, target, &flags.run, flags.resume, output)
}

/// The study to run: that of `--program` or of the folder to resume, changed by each flag that was given.
fn study(flags: &ProgramStudyFlags) -> Result<StudyFile> {
    let resumed = match (flags.rows.path(&flags.run), flags.resume) {
        (None, true) => {
            return Err(Error::Input("--resume: wanted --out-dir with the folder of the run to finish".into()));
        }
        (Some(out), true) => Some(out.join("study.toml")),
        _ => None,
    };
    let file = flags.file.clone().or(resumed.filter(|_| flags.program.program.is_empty()));
    let asked = flags.study();
    let file = match file {
        None => asked,
        Some(path) => {
            let study = only_study(&path)?;
            if study.program.is_none() && flags.program.program.is_empty() {
                return Err(Error::Input(format!(
                    "{}: there is no [program] table: `{}` runs it",
                    path.display(),
                    CommandLine::new("allocanary study").path(&path)
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
        return Err(Error::Input(format!("{}: wanted one study, found several", path.display())));
    };
    Ok(study)
}

/// The candidates that a study with a `[program]` table may name.
pub fn descriptions(program: &Program, folders: &[PathBuf]) -> Result<Vec<Description>> {
    let looked = StartableProgram::look_at(&cells::own_program(&program.command[0], folders)?).map_err(Error::Input)?;
    let mut all = candidates::described(&cells::roster(folders)?.descriptions(), &looked, &candidates::installed());
    candidates::add_runtime(&mut all, runtimes::of(&looked.runs).as_ref());
    Ok(all)
}

/// Runs a study with a `[program]` table.
pub fn run_study(
    file: StudyFile,
    target: Option<StudyFiles>,
    flags: &RunFlags,
    resume: bool,
    output: VerbOutput,
) -> Result<ExitCode> {
    let command = file.program.as_ref().and_then(|program| program.command.first().cloned()).unwrap_or_default();
    let name = Path::new(&command).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let target = target.unwrap_or(StudyFiles::Fresh(name));
    let Some((file, mut started, target)) = begin(file, flags, target)? else { return Ok(ExitCode::from(130)) };
    if let StudyFiles::Folder(folder) = &target {
        started.keep_in(folder.join("cells"));
    }
    let (group, roster) = (Studies(vec![file]), started.roster());
    let executor = &allocanary_study::session::ProgramRunner::new(&started.launcher);
    MeasureRun { group: &group, roster: &roster, target, resume, executor, write_for: flags.write_for, output }.run()
}

/// Examines a program, runs it for the first time, and returns its study in a form that can be run, and the target with its folder.
/// `None` if the user interrupted it.
fn begin(file: StudyFile, flags: &RunFlags, target: StudyFiles) -> Result<Option<(StudyFile, Started, StudyFiles)>> {
    let folders = &flags.cells;
    // Invalid values are reported before the program is examined.
    file.clone().check()?;
    file.about(&Metrics::default())?;
    let file = with_versions(file)?;
    let mut program = file.program.clone().unwrap_or_default();
    program.command[0] = cells::own_program(&program.command[0], folders)?;
    let looked = StartableProgram::look_at(&program.command[0]).map_err(Error::Input)?;
    let cells = cells::roster(folders)?.descriptions();
    let runtime = runtimes::of(&looked.runs);
    let file = with_candidates(StudyFile { program: Some(program), ..file }, &looked, runtime.as_ref())?;
    let installed = candidates::installed();
    let mut candidates = candidates::described(&cells, &looked, &installed);
    candidates::add_runtime(&mut candidates, runtime.as_ref());
    candidates::refuse_unbuilt(file.candidates.as_deref().unwrap_or_default(), &candidates)?;
    let study = file.clone().check()?;
    runtimes::check(study.candidates.iter(), runtime.as_ref(), &looked.runs).map_err(Error::Input)?;
    let names = study.candidates.iter().map(|candidate| candidate.spec.name.as_str());
    let others = candidates::others(&installed);
    let prover = candidates::prover(names.clone(), &others, folders)?;
    let libraries = candidates::libraries(names, folders)?;
    let cells = plan(&study, &candidates)?;
    refuse(&cells, &looked, "leave out --candidates, or name only `own` and own:SETTING=VALUE")?;
    let mut started = Started::new(&looked, runtime, candidates, libraries)?;
    (started.launcher.others, started.launcher.prover) = (others, prover);
    let first = cells.iter().find(|cell| cell.place == 0);
    let (target, is_new) = made(target)?;
    let tried = started.try_out(file, first);
    if let (false, true, StudyFiles::Folder(folder)) = (matches!(tried, Ok(Some(_))), is_new, &target) {
        // Only an empty folder can be removed.
        let _ = std::fs::remove_dir(folder);
    }
    let Some(file) = tried? else {
        terminal::tell("interrupted: nothing was measured");
        return Ok(None);
    };
    Ok(Some((file, started, target)))
}

/// The target with its folder, and whether this folder is new. It is made before the program runs for the first time: the output of a
/// program that lists the folder that it runs in, such as `ls`, would differ afterwards.
fn made(target: StudyFiles) -> Result<(StudyFiles, bool)> {
    let is_new = match &target {
        StudyFiles::Fresh(_) => true,
        StudyFiles::Folder(folder) => !folder.exists(),
        _ => false,
    };
    let target = target.make()?;
    if let (StudyFiles::Folder(folder), true) = (&target, is_new) {
        private::make_folder(folder).map_err(|error| Error::file(folder, "making the output folder", error))?;
    }
    Ok((target, is_new))
}

/// The study with complete versions of its candidates: `mimalloc@2.2` becomes the newest 2.2. A version that is not
/// built yet is built.
fn with_versions(file: StudyFile) -> Result<StudyFile> {
    let Some(named) = file.candidates.as_ref().filter(|all| all.iter().any(|name| name.contains('@'))) else {
        return Ok(file);
    };
    let installed = candidates::installed();
    let whole: Vec<String> = named.iter().map(|name| candidates::whole(name, &installed)).collect();
    let versions: Vec<String> = whole.iter().filter(|name| name.contains('@')).cloned().collect();
    super::build::make_missing(&versions, |name| candidates::is_there(name, &installed))?;
    Ok(StudyFile { candidates: Some(whole), ..file })
}

/// The study with the default candidates that can take effect, if it names none.
fn with_candidates(
    file: StudyFile,
    looked: &StartableProgram,
    runtime: Option<&runtimes::ProgramRuntime>,
) -> Result<StudyFile> {
    if file.candidates.is_some() {
        return Ok(file);
    }
    let ours = program_candidates().map(str::to_string);
    let all: Vec<String> = match &looked.cannot {
        None if file.emulate_cpus.is_some() => ours.filter(|name| !name.starts_with("own")).collect(),
        None => ours.collect(),
        Some(reason) => {
            let of_runtime = runtime.map_or(&[][..], |found| found.runtime.tried).iter().copied();
            let own = candidates::own_settings(looked).chain(of_runtime).map(|settings| format!("own:{settings}"));
            // Huge pages of the kernel can be switched off for any program.
            let limited = huge_pages::are_unasked().then(|| format!("own:{PROCESS_THP}=never"));
            let all: Vec<String> = std::iter::once("own".to_string()).chain(own).chain(limited).collect();
            terminal::tell(format_args!("{reason}; so only its own allocator is measured: {}", all.join(" ")));
            all
        }
    };
    Ok(StudyFile { candidates: Some(all), ..file })
}

/// Fails if a preloaded candidate would have no effect in the program, or if a candidate limits huge pages and the
/// kernel cannot. `instead` says what to do.
pub fn refuse(cells: &[Cell], looked: &StartableProgram, instead: &str) -> Result<()> {
    huge_pages::check(cells).map_err(Error::Input)?;
    let Some(reason) = &looked.cannot else { return Ok(()) };
    match cells.iter().find(|cell| cell.allocator != "own") {
        None => Ok(()),
        Some(cell) => Err(Error::Input(format!("candidate `{}`: {reason}: {instead}", cell.candidate))),
    }
}
