//! The user's program to tune. In: a study with a `[program]` table. Out: the program with every allocator that can be
//! preloaded; if none can, with the settings of its own allocator.

use std::time::Duration;

use super::subject::{TuneSubject, on_cores, present};
use crate::args::TuneFlags;
use crate::commands::cells;
use crate::commands::run::started::Started;
use crate::commands::run::{candidates, refuse};
use crate::commands::terminal;
use allocanary_doctor::VariableEffect;
use allocanary_doctor::program::StartableProgram;
use allocanary_facts::{ours, system};
use allocanary_measure::metrics::Metrics;
use allocanary_rows::PROCESS_THP;
use allocanary_rows::description::Description;
use allocanary_rows::error::{Error, Result};
use allocanary_rows::program::Program;
use allocanary_study::program::{SETTLE, huge_pages, runtimes};
use allocanary_study::search::space::Rest;
use allocanary_study::search::{Goal, GoalSource};
use allocanary_study::session::{StudyFile, plan};
use allocanary_text::units::parse_duration;

/// The program, after its first run; `None` if the user interrupted this run.
pub fn subject(flags: &TuneFlags, file: StudyFile) -> Result<Option<TuneSubject>> {
    let program = file.program.clone().unwrap_or_default();
    let source = if program.is_service() { GoalSource::Service } else { GoalSource::Program };
    // The limits belong to the search and do not change what runs: rows are the same under any limits.
    let within =
        flags.tolerance.clone().or_else(|| Some(program.tolerance.clone()).filter(|within| !within.is_empty()));
    let file = StudyFile { program: Some(Program { tolerance: Vec::new(), ..program.clone() }), ..file };
    if file.candidates.is_some() && flags.file.is_some() {
        terminal::tell("the candidates of the study file are not used: a search has its own");
    }
    // Invalid values are reported before anything is started.
    let checked = StudyFile { candidates: Some(vec!["own".into()]), ..file.clone() };
    checked.clone().check()?;
    let mut metrics = Metrics::default();
    checked.about(&metrics)?;
    let is_named = |text: &String| {
        let name = text.split('=').next().unwrap_or_default().trim();
        program.metric.keys().any(|key| key.split(':').next() == Some(name))
    };
    let known: Vec<String> = within.iter().flatten().filter(|text| !is_named(text)).cloned().collect();
    Goal::parse(&flags.objective, within.is_some().then_some(&known), source, &metrics)?;

    let looked = StartableProgram::look_at(&program.command[0]).map_err(Error::Input)?;
    let cells = cells::roster(&flags.run.cells)?.descriptions();
    let installed = candidates::installed();
    let mut described = candidates::described(&cells, &looked, &installed);
    let runtime = runtimes::of(&looked.runs);
    candidates::add_runtime(&mut described, runtime.as_ref());
    let own = candidates::own_like(&looked);
    let default = if file.emulate_cpus.is_some() { own.unwrap_or(system::NAME) } else { "own" };
    let present = present(flags, default)?;
    if file.emulate_cpus.is_some() && flags.present.is_none() {
        terminal::tell(format_args!(
            "only preloads see --emulate-cpus: {present} is taken for what you have (--present)"
        ));
    }
    runtimes::check(std::iter::once(&present), runtime.as_ref(), &looked.runs)
        .map_err(|why| Error::Input(format!("--present: {why}")))?;
    let allocators = allocators(flags, &looked, &described, runtime.as_ref())?;
    let names = allocators.iter().chain([&present.spec.name]).map(String::as_str);
    let others = candidates::others(&installed);
    let prover = candidates::prover(names.clone(), &others, &flags.run.cells)?;
    let libraries = candidates::libraries(names, &flags.run.cells)?;
    let first = StudyFile { candidates: Some(vec![present.to_string()]), ..file };
    let study = first.clone().check()?;
    let planned = plan(&study, &described)?;
    refuse(&planned, &looked, "name `own` or own:SETTING=VALUE as --present")?;
    let named = runtime.as_ref().map(|found| found.runtime.name);
    let mut started = Started::new(&looked, runtime, described, libraries)?;
    (started.launcher.others, started.launcher.prover) = (others, prover);
    let Some(file) = started.try_out(first, planned.first())? else { return Ok(None) };
    // After the first run the units of the user's own figures are known.
    for (name, figure) in &started.figures {
        metrics.add(name, &figure.unit, &figure.better)?;
    }
    let goal = Goal::parse(&flags.objective, within.as_deref(), source, &metrics)?;
    if goal.objective.name == "p99" && !started.figures.contains_key("p99") {
        let text =
            "--objective p99: the program prints none that is read: name it, as in --metric 'p99:ms=([0-9.]+) ms'";
        return Err(Error::Input(text.into()));
    }
    if !(started.has_huge_pages && huge_pages::are_unasked()) {
        let settings = started.launcher.candidates.iter_mut().map(|candidate| &mut candidate.settings);
        settings.for_each(|settings| settings.retain(|setting| setting.name != PROCESS_THP));
    }
    let rest = match source {
        GoalSource::Service => Rest::Service(program.settle.as_deref().and_then(parse_duration).unwrap_or(SETTLE)),
        _ => Rest::Program(Duration::from_secs_f64(started.seconds)),
    };
    let (roster, started_memory) = (started.roster(), started.memory);
    Ok(Some(TuneSubject {
        goal,
        serving: roster.descriptions(),
        roster,
        job: format!("{}{}", program.title(), on_cores(&study)),
        file,
        started: Some(started),
        allocators: Some(allocators),
        own,
        runtime: named,
        memory: started_memory,
        present,
        rest,
        holds: "This holds for this program, under this load, on this host: another load needs a search of its own.",
    }))
}

/// The allocators to search: all of our preloads, or the program's own if a preload has no effect in it.
fn allocators(
    flags: &TuneFlags,
    looked: &StartableProgram,
    described: &[Description],
    runtime: Option<&runtimes::ProgramRuntime>,
) -> Result<Vec<String>> {
    let asked = flags.candidates.clone();
    let Some(reason) = &looked.cannot else {
        let preloads =
            ours().map(|(one, _)| one.name).filter(|name| described.iter().any(|one| one.allocator == *name));
        // Settings of the runtime are settings of `own`.
        let own = runtime.map(|_| "own".to_string());
        return Ok(asked.unwrap_or_else(|| own.into_iter().chain(preloads.map(str::to_string)).collect()));
    };
    if let Some(name) = asked.iter().flatten().find(|name| *name != "own") {
        return Err(Error::Input(format!("--candidates {name}: {reason}: leave out --candidates, or name only `own`")));
    }
    let has_settings = looked.reads_settings() == VariableEffect::Read && candidates::own_like(looked).is_some();
    if !has_settings && runtime.is_none() && !huge_pages::are_unasked() {
        let name = looked.own.name();
        return Err(Error::Input(format!(
            "{reason}; and {name}, which it has, takes no settings that are searched: there is nothing to choose from"
        )));
    }
    match (runtime, has_settings) {
        (Some(found), _) => {
            terminal::tell(format_args!("{reason}; so only the settings of {} are searched", found.title()))
        }
        (_, true) => terminal::tell(format_args!("{reason}; so only the settings of its own allocator are searched")),
        (_, false) => terminal::tell(format_args!("{reason}; so only {PROCESS_THP} is searched")),
    }
    Ok(vec!["own".to_string()])
}
