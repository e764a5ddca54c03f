//! `record --verify`: whether a replay agrees with the program. In: a trace, a study with a `[program]` table. Out: rows of
//! the program under each candidate, rows of the replay under the same, and both side by side.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::agreement::Agreement;
use crate::args::PaceFlags;
use crate::commands::progress::{Progress, Stretch};
use crate::commands::run::started::Started;
use crate::commands::run::{candidates, refuse};
use crate::commands::{kept, measure, replay, terminal};
use allocanary_cell::sample::Sample;
use allocanary_doctor::program::Program as Looked;
use allocanary_study::error::{Error, Result};
use allocanary_study::run::program::Launcher;
use allocanary_study::run::{Ending, Roster, Runner, Store, Target};
use allocanary_study::{Studies, StudyFile, plan};

/// The candidates of this build that are compared where the user names none.
pub fn candidates() -> Vec<String> {
    let all = ["system", "jemalloc"];
    all.into_iter().filter(|name| cfg!(feature = "jemalloc") || *name != "jemalloc").map(String::from).collect()
}

/// Measures the program and the replay of its trace under each candidate of the study, and compares.
pub fn run(folder: &Path, trace: &Path, study: &StudyFile) -> Result<ExitCode> {
    let program = study.program.clone().unwrap_or_default();
    let names = study.candidates.clone().unwrap_or_default();
    let looked = Looked::look_at(&program.command[0]).map_err(Error::Input)?;
    let cells = measure::roster(&[])?;
    let described = candidates::described(&cells.descriptions(), &looked);
    let libraries = candidates::libraries(names.iter(), &[])?;
    let started = Started::new(&looked, described.clone(), libraries);
    let real_study = StudyFile { name: Some("real".into()), ..study.clone() };
    refuse(
        &plan(&real_study.clone().check()?, &described)?,
        &looked,
        "name `own` or own:SETTING=VALUE as --candidates",
    )?;
    let real = rows(real_study, &started.roster(), Some(&started.launcher), folder.join("real"))?;
    let replay = StudyFile {
        name: Some("replay".into()),
        candidates: study.candidates.clone(),
        repeats: study.repeats,
        seed: study.seed,
        ..replay::study(trace, &PaceFlags::default())?.study
    };
    let replay = rows(replay, &cells, None, folder.join("replay"))?;
    let agreement = Agreement::of(&names, &real, &replay, program.is_service());
    let csv = folder.join("verify.csv");
    std::fs::write(&csv, agreement.csv()).map_err(|error| Error::file(&csv, "writing the comparison", error))?;
    terminal::print_plain(&agreement.table())?;
    terminal::tell(format_args!("rows: {0}/real, {0}/replay; ranges: {1}", folder.display(), csv.display()));
    Ok(if agreement.is_complete() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Runs a study into a folder.
fn rows(file: StudyFile, roster: &Roster, launcher: Option<&Launcher>, folder: PathBuf) -> Result<Vec<Sample>> {
    let study = file.clone().check()?;
    let descriptions = roster.descriptions();
    let cells = plan(&study, &descriptions)?;
    let target = Target::Folder(folder).make()?;
    let mut store = Store::open(&target, false)?;
    kept::keep(&target, &Studies(vec![file]))?;
    let stretch = Stretch::new(&cells, &descriptions, None);
    let progress = Progress::new(vec![stretch]);
    progress.say(&format!("{}: {} cells", study.name.as_deref().unwrap_or_default(), cells.len()));
    progress.begin(0);
    let interrupted = measure::watch_interrupts();
    let runner = Runner { roster, deadline: study.deadline, budget: study.budget, launcher, interrupted };
    let mut samples = Vec::new();
    let mut told = BTreeMap::new();
    let ran = runner.run(&cells, |sample| {
        if let Some(failure) = &sample.error
            && told.insert(sample.cell.candidate.clone(), ()).is_none()
        {
            progress.say(&format!("failed: {}: {}", sample.cell.title(), failure.text));
        }
        store.append(sample)?;
        samples.push(sample.clone());
        progress.done(&sample.cell.candidate);
        Ok(())
    });
    progress.end();
    match ran? {
        Ending::Interrupted(left) => Err(Error::Input(format!(
            "interrupted: {left} cells were not run; the rows so far are in {}",
            target.name()
        ))),
        _ => Ok(samples),
    }
}
