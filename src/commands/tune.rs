//! `allocanary tune`: finds the settings that cost a workload the least, proves them on fresh rows, and prints the lines
//! to paste. In: a workload, an objective, limits, a budget. Out: rows, a recommendation, `tuned.toml`, a page.

mod cells;

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use super::measure;
use super::terminal;
use crate::args::TuneFlags;
use allocanary_cell::description::Description;
use allocanary_cell::spec::Spec;
use allocanary_kernel::sys;
use allocanary_kernel::units::show_duration;
use allocanary_search::answer::{self, Asked};
use allocanary_search::search::{FINAL, FINALISTS, RACED};
use allocanary_search::space::Space;
use allocanary_search::{Goal, Plan, Searched, search};
use allocanary_study::error::{Error, Result};
use allocanary_study::run::{Store, Target};
use allocanary_study::summary::{About, Findings, LEAST_SAMPLES};
use allocanary_study::{Study, StudyFile, expected, plan, reports};
use cells::{Cells, stage_name};

/// Searches, and prints the answer.
pub fn run(flags: &TuneFlags) -> Result<ExitCode> {
    let goal = Goal::parse(&flags.objective, flags.within.as_deref())?;
    let file = file(flags)?;
    let study = file.clone().check()?;
    let budget = study.budget.unwrap_or(BUDGET);
    let present = Spec::parse(flags.present.as_deref().unwrap_or(allocanary_allocators::CHOSEN))
        .map_err(|problem| Error::Input(format!("--present: {problem}")))?;
    let target = match (&flags.run.out, flags.resume) {
        (Some(out), _) => Target::of(out)?,
        (None, false) => Target::Fresh("tune".into()),
        (None, true) => return Err(Error::Input("--resume: wanted --out with the folder of the search".into())),
    };
    if !matches!(target, Target::Folder(_) | Target::Fresh(_)) {
        return Err(Error::Input(format!("--out {}: a search writes several files: name a folder", target.name())));
    }
    let roster = measure::roster(&flags.run.cells)?;
    let descriptions = roster.descriptions();
    // The cells that have the workload; without any, the plan names what is wrong.
    let having = |cell: &&Description| cell.has_workload(&study.workloads[0].name);
    let serving: Vec<Description> = match descriptions.iter().any(|cell| having(&cell)) {
        true => descriptions.iter().filter(having).cloned().collect(),
        false => descriptions.clone(),
    };
    let cores = study.hosts[0].cores.unwrap_or_else(sys::affinity);
    let space = Space::new(&serving, flags.allocators.as_deref(), cores, idle(&study, &serving)?)?;
    let first = space.first();
    // Names and values are checked before anything is written.
    let all = [vec![present.to_string()], first.names.clone()].concat();
    let race = StudyFile { candidates: Some(all), repeats: Some(RACED), ..file.clone() }.check()?;
    let race = plan(&race, &descriptions)?;
    check_budget(budget, &race, expected(&race, &descriptions))?;

    let target = target.make()?;
    let store = Store::open(&target, flags.resume)?;
    let mut source = Cells::new(&roster, file.clone(), &target, store, Instant::now() + budget)?;
    source.say(&format!("{} candidates in the first stage, budget {}", first.names.len(), show_duration(budget)));
    first.left_out.iter().for_each(|reason| source.say(&format!("left out: {reason}")));
    let second = |survivors: &[String]| space.around(survivors).names;
    let wanted = Plan {
        goal,
        present: present.to_string(),
        first: first.names,
        second: Box::new(second),
        repeats: study.repeats,
    };
    let found = match search(&wanted, &mut source) {
        Err(_) if source.interrupted => {
            let name = target.name();
            terminal::tell(format_args!(
                "interrupted: every finished row is saved; add --resume --out {name} to the same command to go on"
            ));
            return Ok(ExitCode::from(130));
        }
        found => found?,
    };
    let job = job(&study);
    let asked = Asked { goal: &wanted.goal, job: &job };
    let text = text(&found, &asked);
    if let Target::Folder(folder) = &target {
        keep(folder, &found, &file, &text, source.findings(&found))?;
    }
    terminal::print(text.as_bytes())?;
    terminal::tell(format_args!("rows, report.html, tune.txt and tuned.toml: {}", target.name()));
    Ok(ExitCode::SUCCESS)
}

/// The budget if none is given.
const BUDGET: Duration = Duration::from_secs(300);

/// The flags as a study: one workload, on one size of host.
fn file(flags: &TuneFlags) -> Result<StudyFile> {
    let file = flags.measure.file();
    let many = |what: &str, count: usize| {
        Err(Error::Input(format!(
            "--{what}: wanted one, found {count}: settings are found for one workload on one size of host"
        )))
    };
    match (&file.workloads, &file.threads, &file.cores) {
        (Some(names), _, _) if names.len() > 1 => return many("workloads", names.len()),
        (_, Some(numbers), _) if numbers.len() > 1 => return many("threads", numbers.len()),
        (_, _, Some(numbers)) if numbers.len() > 1 => return many("cores", numbers.len()),
        _ => {}
    }
    const THREADS: u32 = 16;
    let threads =
        if file.cores.is_none() { file.threads.clone().or(Some(vec![THREADS])) } else { file.threads.clone() };
    let workloads = file.workloads.clone().or_else(|| Some(vec!["server".into()]));
    // The candidates are those of the search; a study must have one to be checked.
    Ok(StudyFile { threads, workloads, candidates: Some(vec![allocanary_allocators::CHOSEN.into()]), ..file })
}

/// How long the workload rests before its memory is read.
fn idle(study: &Study, cells: &[Description]) -> Result<Duration> {
    let workload = &study.workloads[0];
    let known = cells.iter().flat_map(|cell| &cell.workloads).find(|known| known.name == workload.name);
    let Some(known) = known else { return Ok(Duration::ZERO) }; // the plan names what is wrong
    let values = known.parameters_of(workload).map_err(Error::Input)?;
    let millis = values.get("idle").and_then(|value| value.parse().ok());
    Ok(Duration::from_millis(millis.unwrap_or(0)))
}

/// Fails if even the first race and the least final take longer than the budget.
fn check_budget(budget: Duration, race: &[allocanary_cell::Cell], expected: Duration) -> Result<()> {
    let each = expected.as_secs_f64() / race.len().max(1) as f64;
    let least = each * (race.len() + (FINALISTS + 1) * LEAST_SAMPLES) as f64;
    if budget.as_secs_f64() >= least {
        return Ok(());
    }
    let (least, count) = (Duration::from_secs_f64(least.ceil()), race.len() as u32 / RACED);
    Err(Error::Input(format!(
        "--budget: wanted at least {} for {count} candidates, found {}: name fewer --allocators, or a smaller workload",
        show_duration(least),
        show_duration(budget)
    )))
}

/// `server, 40 threads on 40 emulated cores`.
fn job(study: &Study) -> String {
    let host = study.hosts[0];
    let cores = host.cores.map_or(String::new(), |cores| format!(" on {cores} emulated cores"));
    let plural = if host.threads == 1 { "" } else { "s" };
    format!("{}, {} thread{plural}{cores}", study.workloads[0], host.threads)
}

/// The whole answer.
fn text(found: &Searched, asked: &Asked) -> String {
    let look = terminal::look();
    let width = usize::from(look.width);
    let mut out = format!(
        "{}\n{}\n",
        answer::table(found, asked),
        reports::wrapped(&answer::recommendation(found, asked), width)
    );
    if let Some(reason) = answer::reason(found, width) {
        let key = answer::key(found);
        out.push_str(&format!("\nWhere the memory is:\n{reason}{}\n", reports::wrapped(&key, width)));
    }
    for (candidate, why) in &found.failures {
        out.push_str(&format!("failed: {candidate}: {why}\n"));
    }
    found.notes.iter().for_each(|note| out.push_str(&format!("note: {note}\n")));
    if let Some(lines) = answer::paste(found) {
        out.push_str(&format!(
            "\nLines to paste, in one of these places:\n\n{lines}\nThe proof again, and a gate for CI:\n\n{GATE}"
        ));
    }
    out
}

/// How to use `tuned.toml`.
const GATE: &str = "    allocanary study tuned.toml --out before.jsonl     # once; keep the file\n    \
    allocanary study tuned.toml --out now.jsonl        # in CI\n    \
    allocanary compare before.jsonl now.jsonl --gate rss=10% --gate throughput=10%\n";

/// Writes the answer, the study that repeats the proof, and the page.
fn keep(folder: &Path, found: &Searched, file: &StudyFile, text: &str, findings: Findings) -> Result<()> {
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).map_err(|error| Error::file(path, "writing the answer", error))
    };
    let candidates =
        std::iter::once(found.present.clone()).chain(found.recommended().map(|best| best.candidate.clone()));
    let study = StudyFile {
        name: Some("tuned".into()),
        question: Some("Does what `allocanary tune` recommended still hold?".into()),
        candidates: Some(candidates.collect()),
        budget: None,
        repeats: Some(file.repeats.unwrap_or(10)),
        ..file.clone()
    };
    write("tuned.toml", &study.to_toml())?;
    write("tune.txt", text)?;
    let html = reports::find("html").expect("html is in the list of reports");
    write("report.html", &(html.render)(&findings, &terminal::look()))
}

/// What a report says of the final's study.
fn about(name: Option<&str>) -> About {
    let is_final = name == Some(&stage_name(FINAL));
    let question = "Which settings cost this workload the least?";
    About { question: if is_final { question.into() } else { String::new() }, ..About::default() }
}
