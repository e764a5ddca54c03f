//! A built-in workload to tune. In: flags as a study. Out: the workload on one size of host, with the cells that have it.

use std::time::Duration;

use super::subject::{TuneSubject, on_cores, present};
use crate::args::TuneFlags;
use crate::commands::cells;
use allocanary_measure::metrics::Metrics;
use allocanary_rows::description::Description;
use allocanary_rows::error::{Error, Result};
use allocanary_study::search::space::Rest;
use allocanary_study::search::{Goal, GoalSource};
use allocanary_study::session::{Roster, Studies, Study, StudyFile};
use allocanary_text::units::parse_duration;

/// The workload of the flags.
pub fn subject(flags: &TuneFlags, file: StudyFile) -> Result<TuneSubject> {
    let goal = Goal::parse(&flags.objective, flags.tolerance.as_deref(), GoalSource::Workload, &Metrics::default())?;
    const THREADS: u32 = 16;
    let threads =
        if file.emulate_cpus.is_none() { file.threads.clone().or(Some(vec![THREADS])) } else { file.threads.clone() };
    let workloads = file.workloads.clone().or_else(|| Some(vec!["server".into()]));
    // The search has its own candidates, but a study is checked only if it has one.
    let candidates = Some(vec![crate::given::allocator().to_string()]);
    let file = StudyFile { threads, workloads, candidates, ..file };
    let (study, roster, serving) = cells_of(&file, flags)?;
    let present = present(flags, crate::given::allocator())?;
    let rest = Rest::Workload(idle(&study, &serving)?);
    let host = study.hosts[0];
    let plural = if host.threads == 1 { "" } else { "s" };
    Ok(TuneSubject {
        goal,
        file,
        roster,
        started: None,
        serving,
        allocators: flags.candidates.clone(),
        own: None,
        runtime: None,
        memory: None,
        present,
        rest,
        job: format!("{}, {} thread{plural}{}", study.workloads[0], host.threads, on_cores(&study)),
        holds: "This holds for this workload and this size of host; a service with another pattern of allocations needs a \
                search of its own.",
    })
}

/// A study that can be run, the cells of this build, and the descriptions of those cells that have its workload.
pub fn cells_of(file: &StudyFile, flags: &TuneFlags) -> Result<(Study, Roster, Vec<Description>)> {
    let study = file.clone().check()?;
    let roster = cells::roster_for(&Studies(vec![file.clone()]), &flags.run.cells)?;
    let serving = serving(&roster.descriptions(), &study.workloads[0].name);
    Ok((study, roster, serving))
}

/// The cells that have the workload. If none has it, all cells: the plan then reports the error.
fn serving(cells: &[Description], workload: &str) -> Vec<Description> {
    let having: Vec<Description> = cells.iter().filter(|cell| cell.has_workload(workload)).cloned().collect();
    if having.is_empty() { cells.to_vec() } else { having }
}

/// The idle time of the workload before its memory is read.
fn idle(study: &Study, cells: &[Description]) -> Result<Duration> {
    let workload = &study.workloads[0];
    let known = cells.iter().flat_map(|cell| &cell.workloads).find(|known| known.name == workload.name);
    let Some(known) = known else { return Ok(Duration::ZERO) }; // the plan reports the error
    let values = known.parameters_of(workload).map_err(Error::Input)?;
    Ok(values.get("settle").and_then(|value| parse_duration(value)).unwrap_or_default())
}
