//! `allocanary study`: compares candidates. In: a study's name or file, flags. Out: rows, a report, a page.

use std::process::ExitCode;

use super::cells;
use super::measure::MeasureRun;
use super::output::VerbOutput;
use super::studies::study;
use crate::args::StudyRunFlags;
use allocanary_rows::error::{Error, Result};
use allocanary_study::session::{Linked, StudyFiles};

/// Runs the study, or each study of a group.
pub fn run(flags: &StudyRunFlags) -> Result<ExitCode> {
    let StudyRunFlags { plan, study: flags, tables } = flags;
    if *plan {
        return super::plan::run(flags);
    }
    let (name, group) = study(flags)?;
    let output = VerbOutput::of_tables("study", tables, &group.0)?;
    if let [one] = group.0.as_slice()
        && one.program.is_some()
    {
        let target = flags.rows.target(&flags.run)?;
        return super::run::run_study(one.clone(), target, &flags.run, flags.resume, output);
    }
    if let Some(with) = group.0.iter().find(|study| study.program.is_some()) {
        let name = with.name.as_deref().unwrap_or("one of the studies");
        return Err(Error::Input(format!(
            "{name}: a study with a [program] table runs alone: give it a file of its own"
        )));
    }
    let target = flags.rows.target(&flags.run)?.unwrap_or(StudyFiles::Fresh(name));
    let roster = cells::roster_for(&group, &flags.run.cells)?;
    MeasureRun {
        group: &group,
        roster: &roster,
        target,
        resume: flags.resume,
        executor: &Linked::new(&roster),
        write_for: flags.run.write_for,
        output,
    }
    .run()
}
