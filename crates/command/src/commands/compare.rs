//! `allocanary compare`: are the new results better, worse or equal? In: two files of rows, gates. Out: a verdict for
//! each candidate, workload and column, an answer for each gate, and an exit code for CI.

use std::path::Path;
use std::process::ExitCode;

use super::terminal;
use crate::args::CompareFlags;
use allocanary_measure::metrics::{Metric, Metrics};
use allocanary_measure::rows;
use allocanary_measure::summary::{Fold, Judged, Judgement, MetricLimit, RowComparison, Side};
use allocanary_rows::error::{Error, Result};
use allocanary_screens::draw::{Answer, short};
use allocanary_screens::report::comparison;
use allocanary_sys::private;
use allocanary_text::outside::TerminalStyle;
use allocanary_text::units::show_share;

/// Compares, prints, and judges.
pub fn run(flags: &CompareFlags) -> Result<ExitCode> {
    let limits: Vec<(&str, f64)> = flags.gate.iter().map(|text| MetricLimit::parse(text)).collect::<Result<_>>()?;
    // Rows of a user's program may have metrics that only these rows define. Each side is read only once, because it
    // may be a pipe.
    let old = read(&flags.old, &Metrics::default())?;
    let new = read(&flags.new, old.metrics())?;
    let known = |name: &str| new.metrics().wanted(name);
    let gates = limits
        .into_iter()
        .map(|(name, most)| MetricLimit::new(new.metrics(), name, most))
        .collect::<Result<Vec<MetricLimit>>>()?;
    let metrics = flags.metrics.iter().map(|name| known(name).cloned()).collect::<Result<Vec<Metric>>>()?;
    let judgement = Judgement::of(&old, &new, metrics, &gates).map_err(|error| match error {
        Error::NoRows(what) => {
            Error::NoRows(format!("{} and {} have {what}", flags.old.display(), flags.new.display()))
        }
        other => other,
    })?;
    let undecided_passes = flags.undecided == "pass";
    let passes = judgement.passes(undecided_passes);
    let answers = comparison::answers(&judgement, undecided_passes);
    let look = terminal::look();
    let text = match flags.format.as_str() {
        _ if flags.output.json => comparison::json(&judgement, &answers, passes),
        _ if flags.output.short => short(&answers, &look),
        "json" => comparison::json(&judgement, &answers, passes),
        "markdown" => comparison::markdown(&judgement, &answers, passes),
        "github" => for_github(&judgement, &answers, passes)?,
        _ => tables(&judgement, &answers, &look),
    };
    terminal::print(text.as_bytes())?;
    if flags.format == "table" && !flags.output.json && !flags.output.short {
        tell_gates(&judgement, undecided_passes);
    }
    Ok(if passes { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// The tables, then the differences, then the answer.
fn tables(judgement: &Judgement, answers: &[Answer], look: &TerminalStyle) -> String {
    let mut out = comparison::render(&judgement.compared, look);
    judgement.only_new.iter().for_each(|title| out.push_str(&format!("only in the new: {title}\n")));
    judgement.differs.iter().for_each(|line| out.push_str(&format!("differs: {line}\n")));
    for (name, notes) in ["old", "new"].iter().zip(&judgement.notes) {
        notes.iter().for_each(|note| out.push_str(&format!("{name}: {note}\n")));
    }
    let answers = answers.iter().map(|answer| allocanary_screens::draw::wrapped(&answer.text, look.width.into()));
    out.push_str(&format!("\nAnswer\n{}\n", answers.collect::<Vec<_>>().join("\n")));
    out
}

/// GitHub's annotations, and the summary of the job. The summary goes to the file that GitHub names; without such a
/// file it comes before the annotations.
fn for_github(judgement: &Judgement, answers: &[Answer], passes: bool) -> Result<String> {
    let summary = comparison::markdown(judgement, answers, passes);
    let annotations = comparison::annotations(answers);
    let Some(path) = std::env::var_os("GITHUB_STEP_SUMMARY").filter(|path| !path.is_empty()) else {
        return Ok(format!("{summary}\n{annotations}"));
    };
    let path = Path::new(&path);
    private::append(path, summary.as_bytes())
        .map_err(|error| Error::file(path, "adding the summary of the job", error))?;
    Ok(annotations)
}

/// Prints why gates failed, or are undecided.
fn tell_gates(judgement: &Judgement, undecided_passes: bool) {
    for (what, why) in &judgement.lost {
        terminal::tell(format_args!("lost: {what}: {why}"));
    }
    let found = |gate: &MetricLimit, one: &RowComparison| {
        format!("{}: {}, and the gate is {}", one.title(), comparison::found(&one.comparison), show_share(gate.most))
    };
    for (gate, one) in judgement.judged(Judged::Undecided) {
        terminal::tell(format_args!("gate undecided: {}; {}", found(gate, one), gate.more(&one.comparison)));
    }
    if judgement.judged(Judged::Undecided).next().is_some() && !undecided_passes {
        terminal::tell("an undecided gate fails; --undecided pass lets it through");
    }
    for (gate, one) in judgement.judged(Judged::Broken) {
        terminal::tell(format_args!("gate broken: {}", found(gate, one)));
    }
}

/// Reads the rows of a file, whose figures must agree with `metrics`. Prints the problems of lines that are not rows.
fn read(path: &Path, metrics: &Metrics) -> Result<Side> {
    let mut fold = Fold::knowing(metrics);
    for problem in rows::read(&[path.to_path_buf()], |sample| fold.add(&sample))? {
        terminal::tell(problem);
    }
    Side::of(&path.display().to_string(), fold)
}
