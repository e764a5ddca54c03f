//! `allocanary give-back PROCESS --tree`: the calls in a process and in all processes that it has started. In: the first process. Out: a
//! question, each result, and the sum.

use std::process::ExitCode;

use super::confirmed::{REFUSED, confirmed};
use super::{once, take, trouble};
use crate::args::GiveBackFlags;
use crate::commands::terminal;
use allocanary_heap::{ProcessTrouble, Reading, processes, tree};
use allocanary_inside::give_back::Limits;
use allocanary_inside::give_back::plan::plan;
use allocanary_rows::error::Result;
use allocanary_text::units::Bytes;

/// Gives back in each process whose heap would give something.
pub fn all(flags: &GiveBackFlags, root: u32, limits: Limits) -> Result<ExitCode> {
    let mut readings = Vec::new();
    for one in tree(&processes(), root) {
        match take(one.pid) {
            Ok(reading) => readings.push(reading),
            Err(ProcessTrouble::Gone(_)) if one.pid != root => {}
            Err(error) if one.pid == root => return Err(trouble(error)),
            Err(error) => terminal::tell(format_args!("left out: {error}")),
        }
    }
    let count = readings.len();
    readings.retain(|reading| !plan(reading).is_empty());
    let plans: Vec<_> = readings.iter().flat_map(plan).collect();
    let sum: u64 = plans.iter().filter_map(|one| one.forecast).sum();
    let sum = format!("{}{}", if plans.iter().any(|one| one.at_most) { "up to " } else { "" }, Bytes(sum));
    if !flags.json {
        terminal::print_plain(&asked(root, count, &readings, &sum))?;
    }
    if readings.is_empty() || !(flags.dry_run || flags.yes || confirmed()?) {
        return Ok(ExitCode::from(if readings.is_empty() { 0 } else { REFUSED }));
    }
    // Each one is asked for above.
    let each = GiveBackFlags { yes: !flags.dry_run, ..flags.clone() };
    let before = resident(&readings);
    let mut worst = ExitCode::SUCCESS;
    for reading in &readings {
        let code = once(&each, reading, limits)?;
        if code != ExitCode::SUCCESS {
            worst = code;
        }
    }
    if !flags.json && !flags.dry_run {
        let after: u64 = readings
            .iter()
            .filter_map(|reading| take(reading.process.pid).ok())
            .map(|now| now.counted_resident())
            .sum();
        let given = Bytes(before.saturating_sub(after));
        terminal::print_plain(&format!("given back in {} processes: {given} (expected: {})\n", readings.len(), sum))?;
    }
    Ok(worst)
}

fn resident(readings: &[Reading]) -> u64 {
    readings.iter().map(Reading::counted_resident).sum()
}

/// What would be done, for a person.
fn asked(root: u32, count: usize, readings: &[Reading], sum: &str) -> String {
    match readings {
        [] => format!("process {root} and its children: of {count} processes none would give memory back\n"),
        some => format!(
            "process {root} and its children: {} of {count} processes would give back {} together\n",
            some.len(),
            sum
        ),
    }
}
