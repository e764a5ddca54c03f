//! `allocanary compare`: are the new results better, worse or equal? In: two files of rows, gates. Out: a verdict for
//! each candidate, workload and column, and an exit code for CI.

use std::path::Path;
use std::process::ExitCode;

use super::terminal;
use crate::args::CompareFlags;
use allocanary_kernel::units::show_share;
use allocanary_report::comparison;
use allocanary_study::error::{Error, Result};
use allocanary_study::rows;
use allocanary_study::summary::{Compared, Fold, Gate, Judged, Judgement, Metric, Metrics, Side};

/// Compares, prints, and judges.
pub fn run(flags: &CompareFlags) -> Result<ExitCode> {
    let limits: Vec<(&str, f64)> = flags.gate.iter().map(|text| Gate::parse(text)).collect::<Result<_>>()?;
    // Rows of a user's program may have metrics that only they know. Each side is read once: it may be a pipe.
    let old = read(&flags.old, &Metrics::default())?;
    let new = read(&flags.new, old.metrics())?;
    let known = |name: &str| new.metrics().wanted(name);
    let gates =
        limits.into_iter().map(|(name, most)| Gate::new(new.metrics(), name, most)).collect::<Result<Vec<Gate>>>()?;
    let metrics = flags.metrics.iter().map(|name| known(name).cloned()).collect::<Result<Vec<Metric>>>()?;
    let judgement = Judgement::of(&old, &new, metrics, &gates).map_err(|error| match error {
        Error::NoRows(what) => {
            Error::NoRows(format!("{} and {} have {what}", flags.old.display(), flags.new.display()))
        }
        other => other,
    })?;
    let mut out = comparison::render(&judgement.compared, &terminal::look());
    judgement.only_new.iter().for_each(|title| out.push_str(&format!("only in the new: {title}\n")));
    judgement.differs.iter().for_each(|line| out.push_str(&format!("differs: {line}\n")));
    for (name, notes) in ["old", "new"].iter().zip(&judgement.notes) {
        notes.iter().for_each(|note| out.push_str(&format!("{name}: {note}\n")));
    }
    terminal::print(out.as_bytes())?;
    let undecided_passes = flags.undecided == "pass";
    tell_gates(&judgement, undecided_passes);
    Ok(if judgement.passes(undecided_passes) { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Why the gates do not hold, or may not.
fn tell_gates(judgement: &Judgement, undecided_passes: bool) {
    for (what, why) in &judgement.lost {
        terminal::tell(format_args!("lost: {what}: {why}"));
    }
    let found = |gate: &Gate, one: &Compared| {
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

/// The rows of a file, whose figures must agree with these metrics. Lines that are none are told.
fn read(path: &Path, metrics: &Metrics) -> Result<Side> {
    let mut fold = Fold::knowing(metrics);
    for problem in rows::read(&[path.to_path_buf()], |sample| fold.add(&sample))? {
        terminal::tell(problem);
    }
    Side::of(&path.display().to_string(), fold)
}
