//! `allocanary tune`: finds the settings with which a workload, a program or a trace costs the least. It proves them on
//! fresh rows, and prints the lines to paste. In: what to measure, an objective, limits, a budget. Out: rows, a
//! recommendation, `tuned.toml`, a page.

mod answer;
mod finalists;
mod kind;
mod program;
mod shown;
mod subject;
mod trace;
mod workload;

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use super::measure::watch_interrupts;
use super::output::VerbOutput;
use super::{left, production, terminal};
use crate::args::TuneFlags;
use allocanary_measure::summary::{Findings, LEAST_SAMPLES, StudyNotes};
use allocanary_rows::Candidate;
use allocanary_rows::error::{Error, Result};
use allocanary_rows::program::Program;
use allocanary_screens::report as reports;
use allocanary_screens::report::production::ProductionChange;
use allocanary_study::search::cells::{self, Cells};
use allocanary_study::search::goal::Guard;
use allocanary_study::search::space::Space;
use allocanary_study::search::whole::{FINALISTS, RACED};
use allocanary_study::search::{Goal, Plan, Searched, search};
use allocanary_study::session::{
    Executor, Left, Linked, RowsFile, Studies, Study, StudyFile, StudyFiles, expected_time, kept, plan,
};
use allocanary_sys::private;
use allocanary_text::outside::TerminalStyle;
use allocanary_text::paste::CommandLine;
use allocanary_text::units::show_duration;

use answer::TuneFacts;
use shown::TuneOutput;
use subject::TuneSubject;

/// The files of an answer.
const WRITTEN: [&str; 3] = ["report.html", "tune.txt", "tuned.toml"];

/// Searches, and prints the answer.
pub fn run(flags: &TuneFlags) -> Result<ExitCode> {
    let target = target(flags)?;
    let output = VerbOutput::of("tune", &flags.output);
    let Some(mut subject) = kind::subject(flags)? else {
        terminal::tell("interrupted: nothing was measured");
        return Ok(ExitCode::from(130));
    };
    if flags.resume
        && let (Some(program), Some(begun)) = (&mut subject.file.program, kept::any_output(&target)?)
    {
        // Whether outputs differ was found when the search began. It is not tested again: two runs may have the same
        // output by chance.
        program.any_output = begun;
    }
    let space =
        Space::new(&subject.serving, subject.own, subject.allocators.as_deref(), subject.cores(), subject.rest)?
            .of_runtime(subject.runtime, subject.memory);
    let first = space.first();
    let study = subject.file.clone().check()?;
    if (study.repeats as usize) < LEAST_SAMPLES {
        return Err(Error::Input(format!(
            "--repeats: wanted at least {LEAST_SAMPLES} fresh rows of each finalist, found {}: fewer prove nothing",
            study.repeats
        )));
    }
    if subject.file.inherited.as_ref().is_some_and(|variables| !variables.is_empty()) {
        let text = "[inherited]: a search has the candidates' variables to itself: leave the table out of the study";
        return Err(Error::Input(text.into()));
    }
    // Names and values are checked before anything is written.
    let others = first.all.iter().filter(|candidate| **candidate != subject.present).cloned();
    let candidates = std::iter::once(subject.present.clone()).chain(others).collect();
    let descriptions = subject.roster.descriptions();
    let race = plan(&Study { candidates, repeats: RACED, ..study.clone() }, &descriptions)?;
    let budget = budget(study.budget, &race, expected_time(&race, &descriptions))?;

    // The group is stored next to the rows, so that only the same search can be continued with them.
    let group = Studies(vec![StudyFile { name: Some("tune".into()), time_budget: None, ..subject.file.clone() }]);
    kept::check(&target, &group, &WRITTEN)?;
    let target = target.make()?;
    let store = RowsFile::open(&target, flags.resume)?;
    if flags.resume {
        kept::compare(&target, &group)?;
    }
    let executor: Box<dyn Executor> = match &subject.started {
        Some(started) => Box::new(allocanary_study::session::ProgramRunner::new(&started.launcher)),
        None => Box::new(Linked::new(&subject.roster)),
    };
    let mut shown = TuneOutput::new(&descriptions);
    let (file, interrupted) = (subject.file.clone(), watch_interrupts());
    let job =
        cells::SearchJob { executor: &*executor, cells: descriptions.clone(), file, budget: Some(budget), interrupted };
    let mut source = Cells::new(job, &target, store, &mut shown)?;
    kept::keep(&target, &group)?;
    terminal::tell(format_args!(
        "search for the least {} of {}: {} candidates in the first stage, time budget {}; Ctrl-C ends it, and keeps the rows",
        subject.goal.objective.name,
        subject.job,
        first.all.len(),
        show_duration(budget)
    ));
    first.left_out.iter().for_each(|reason| terminal::tell(format_args!("left out: {reason}")));
    let second = |survivors: &[Candidate]| space.around(survivors).all;
    let wanted = Plan {
        goal: subject.goal.clone(),
        present: subject.present.clone(),
        own: subject.own,
        first: first.all,
        second: Box::new(second),
        repeats: study.repeats,
    };
    let resume = |begun: &str| format!("go on with `{}`", resumed(std::env::args_os(), begun, None));
    let gone = |rows: Left| left::told(&rows, &target, "search", resume);
    let found = search(&wanted, &mut source);
    if let (Err(_), Some(rows)) = (&found, source.left()) {
        return Err(gone(rows));
    }
    let found = match found {
        Err(Error::Interrupted) => {
            let resume = resume(&target.name().to_string());
            terminal::tell(format_args!("interrupted: every finished row is saved; {resume}"));
            return Ok(ExitCode::from(130));
        }
        Err(Error::TimeBudget { said, more }) => {
            // Half as much again as the estimate, in whole minutes: the machine may be busier then.
            let minutes = ((budget.as_secs_f64() + 1.5 * more) / 60.0).ceil();
            let again = resumed(std::env::args_os(), &target.name(), Some(minutes as u64));
            return Err(Error::Input(format!("{said}; go on with `{again}`")));
        }
        found => found?,
    };
    let findings = source.findings(&found, &about(&found, &subject))?;
    let text = text(&found, &subject, &findings);
    let shown = match output.is_brief() {
        true => output.text(&findings, &terminal::look()),
        false => screen(&found, &subject, &findings),
    };
    terminal::print(shown.as_bytes())?;
    if let Some(rows) = source.left() {
        return Err(gone(rows));
    }
    if let StudyFiles::Folder(folder) = &target {
        keep(folder, &found, &subject.file, &text, &findings)?;
        if let Some(place) = flags.run.write_for {
            production::write(place, change(&found), folder)?;
        }
    }
    terminal::tell(format_args!(
        "rows, report.html, tune.txt (every place, a gate for CI), tuned.toml: {}",
        target.name()
    ));
    Ok(ExitCode::SUCCESS)
}

/// The change that the answer recommends.
fn change(found: &Searched) -> Option<ProductionChange> {
    let best = &found.recommended()?.candidate;
    let group = found.group(best)?;
    Some(ProductionChange::of(best, &group.environment))
}

/// The folder for the rows and the answer.
fn target(flags: &TuneFlags) -> Result<StudyFiles> {
    match (flags.run.folder()?, flags.resume) {
        (Some(folder), _) => Ok(folder),
        (None, false) => Ok(StudyFiles::Fresh("tune".into())),
        (None, true) => Err(Error::Input("--resume: wanted --out-dir with the folder of the search".into())),
    }
}

/// The command that continues a search whose rows are in a folder, perhaps with another time budget.
fn resumed(words: impl Iterator<Item = OsString>, begun: &str, minutes: Option<u64>) -> CommandLine {
    let typed: Vec<OsString> = words.skip(1).collect();
    let ours = typed.iter().position(|word| word == "--").unwrap_or(typed.len());
    let (flags, program) = typed.split_at(ours);
    let mut again = CommandLine::new("allocanary");
    let mut flags = flags.iter();
    while let Some(flag) = flags.next() {
        match flag.as_bytes() {
            b"--out-dir" => drop(flags.next()),
            b"--time-budget" if minutes.is_some() => drop(flags.next()),
            b"--resume" => (),
            other if other.starts_with(b"--out-dir=") => (),
            other if other.starts_with(b"--time-budget=") && minutes.is_some() => (),
            _ => again = again.word(flag),
        }
    }
    let budget = minutes.map(|minutes| format!("--time-budget={minutes}m"));
    again.words(["--resume", "--out-dir"]).path(begun).words(budget).words(program)
}

/// The budget. It is the user's, if that is enough for the first race and the shortest final. Otherwise it is five
/// minutes, or twice this least time if that is longer.
fn budget(job: Option<Duration>, race: &[allocanary_rows::Cell], expected: Duration) -> Result<Duration> {
    const USUAL: Duration = Duration::from_secs(300);
    let each = expected.as_secs_f64() / race.len().max(1) as f64;
    let least = each * (race.len() + (FINALISTS + 1) * LEAST_SAMPLES) as f64;
    // An estimate may be too large for a `Duration`.
    let span = |seconds: f64| Duration::try_from_secs_f64(seconds.ceil()).unwrap_or(Duration::MAX);
    match job {
        None => Ok(USUAL.max(span(2.0 * least))),
        Some(budget) if budget.as_secs_f64() >= least => Ok(budget),
        Some(budget) => Err(Error::Input(format!(
            "--time-budget: wanted at least {} for {} candidates, found {}: name fewer --candidates, or give it that time",
            show_duration(span(least)),
            race.len() as u32 / RACED,
            show_duration(budget)
        ))),
    }
}

/// The text for the terminal: the finalists, the reason, failures and notes, and last the answer with its lines.
fn screen(found: &Searched, subject: &TuneSubject, findings: &Findings) -> String {
    let look = terminal::look();
    let most = Some(MOST_TROUBLES).filter(|_| look.width < reports::table::WIDE);
    let mut out = evidence(found, subject, findings, look, most);
    out.push_str(&format!("\n{}", reports::table::ending(findings, &look)));
    out
}

/// The most failures and notes on a terminal.
const MOST_TROUBLES: usize = 5;

/// The whole answer, for a file. It also has the lines for every place, and a gate for CI.
fn text(found: &Searched, subject: &TuneSubject, findings: &Findings) -> String {
    let job = &TuneFacts { text: &subject.job, holds: subject.holds };
    let look = TerminalStyle { color: false, ..terminal::look() };
    let recommendation = allocanary_screens::draw::wrapped(&answer::recommendation(found, job), look.width.into());
    let mut out = format!("{recommendation}\n\n{}", evidence(found, subject, findings, look, None));
    if let Some(lines) = answer::paste(found) {
        out.push_str(&format!(
            "\nLines to paste, in one of these places:\n\n{lines}\nThe proof again, and a gate for CI:\n\n{}",
            gate(&found.goal)
        ));
    }
    out
}

/// The evidence for the answer. `most` limits how many failures and notes are shown.
fn evidence(
    found: &Searched,
    subject: &TuneSubject,
    findings: &Findings,
    look: TerminalStyle,
    most: Option<usize>,
) -> String {
    let job = &TuneFacts { text: &subject.job, holds: subject.holds };
    let width = usize::from(look.width);
    let mut out = finalists::table(found, job.text, &look);
    let bars = most.is_none();
    if let Some(reason) = answer::reason(found, width, bars) {
        out.push_str(&format!("\nWhere the memory is:\n{reason}"));
    }
    out.push_str(&format!("{}\n", allocanary_screens::draw::wrapped(&answer::remark(found, job), width)));
    let best = found.recommended().map(|best| &best.candidate);
    let unproven = findings.unproven.iter().filter(|(candidate, ..)| best == Some(candidate));
    let failures = found.failures.iter().map(|(candidate, why)| format!("failed: {candidate}: {why}"));
    let notes = found
        .notes
        .iter()
        .chain(&findings.notes)
        .map(|note| allocanary_screens::draw::wrapped(&format!("note: {note}"), width));
    let unproven = unproven.map(|(candidate, setting, why)| {
        allocanary_screens::draw::wrapped(&format!("unproven: {candidate}: {setting}: {why}"), width)
    });
    let all: Vec<String> = unproven.chain(notes).chain(failures).collect();
    let shown = most.unwrap_or(usize::MAX).min(all.len());
    all[..shown].iter().for_each(|line| out.push_str(&format!("{line}\n")));
    if shown < all.len() {
        out.push_str(&format!("and {} more of these: tune.txt\n", all.len() - shown));
    }
    out
}

/// How to use `tuned.toml`.
fn gate(goal: &Goal) -> String {
    let gates: Vec<String> = goal.wanted().take(2).map(|metric| format!("--gate {}=10%", metric.name)).collect();
    format!(
        "    allocanary study tuned.toml --output before.jsonl     # once; keep the file\n    \
         allocanary study tuned.toml --output now.jsonl        # in CI\n    \
         allocanary compare before.jsonl now.jsonl {}\n",
        gates.join(" ")
    )
}

/// Writes the answer, the study that repeats the proof, and the page.
fn keep(folder: &Path, found: &Searched, file: &StudyFile, text: &str, findings: &Findings) -> Result<()> {
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        private::replace(&path, text.as_bytes())
            .map(drop)
            .map_err(|error| Error::file(path, "writing the answer", error))
    };
    let candidates = std::iter::once(&found.present)
        .chain(found.recommended().map(|best| &best.candidate))
        .map(Candidate::to_string);
    let tolerance: Vec<String> = found.goal.guards.iter().map(Guard::text).collect();
    let study = StudyFile {
        name: Some("tuned".into()),
        question: Some("Does what `allocanary tune` recommended still hold?".into()),
        candidates: Some(candidates.collect()),
        time_budget: None,
        repeats: Some(file.repeats.unwrap_or(10)),
        seed: Some(cells::fresh_seed(file)),
        metrics: Some(found.goal.wanted().map(|metric| metric.name.to_string()).collect()),
        program: file.program.clone().map(|program| Program { tolerance, ..program }),
        ..file.clone()
    };
    let html = reports::find("html").expect("html is in the list of reports");
    let texts = [(html.render)(findings, &terminal::look()), text.to_string(), study.to_toml()];
    WRITTEN.iter().zip(&texts).try_for_each(|(name, text)| write(name, text))
}

/// What the page says about the proof. It is the same as on the terminal: the page does not judge again.
fn about(found: &Searched, subject: &TuneSubject) -> StudyNotes {
    let job = &TuneFacts { text: &subject.job, holds: subject.holds };
    StudyNotes {
        question: "Which settings cost the least?".into(),
        metrics: found.goal.wanted().cloned().collect(),
        decided: Some(answer::decided(found, job)),
        ..StudyNotes::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_is_resumed_by_its_whole_command() {
        let with_budget = |line: &str, minutes: Option<u64>| {
            resumed(line.split(' ').map(OsString::from), "allocanary-out/tune-1", minutes).to_string()
        };
        let resumed = |line: &str| with_budget(line, None);
        let whole =
            "allocanary tune --time-budget 60s --resume --out-dir allocanary-out/tune-1 -- python3 x.py --out-dir y";
        assert_eq!(resumed("/bin/allocanary tune --time-budget 60s -- python3 x.py --out-dir y"), whole);
        assert_eq!(
            resumed("allocanary tune --out-dir a --time-budget 60s --resume -- python3 x.py --out-dir y"),
            whole
        );
        assert_eq!(
            resumed("allocanary tune --out-dir=a w.toml"),
            "allocanary tune w.toml --resume --out-dir allocanary-out/tune-1"
        );
        for given in ["--time-budget 60s", "--time-budget=60s", "--resume"] {
            assert_eq!(
                with_budget(&format!("allocanary tune {given} -- true --time-budget 1s"), Some(10)),
                "allocanary tune --resume --out-dir allocanary-out/tune-1 --time-budget=10m -- true --time-budget 1s"
            );
        }
    }
}
