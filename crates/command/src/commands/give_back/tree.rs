//! `allocanary give-back PROCESS --tree`: the calls in a process and in all processes that it has started. In: the first process. Out: a
//! question, each result, and the sum.

use std::process::ExitCode;

use super::confirmed::{REFUSED, confirmed};
use super::{of_one, planned, take, trouble};
use crate::args::GiveBackFlags;
use crate::commands::readings::without_map;
use crate::commands::terminal;
use allocanary_heap::{ProcessTrouble, Reading, processes, tree};
use allocanary_inside::give_back::Limits;
use allocanary_inside::give_back::plan::{HeapPlan, forecast};
use allocanary_rows::error::Result;
use allocanary_text::units::Bytes;

/// Gives back in each process whose heap would give something.
pub fn all(flags: &GiveBackFlags, root: u32, limits: Limits) -> Result<ExitCode> {
    let mut found = Vec::new();
    // This command may be a child of the process itself.
    for one in tree(&processes(), root).into_iter().filter(|one| one.pid != std::process::id()) {
        match take(one.pid) {
            Ok(reading) => found.push((without_map(&reading), planned(&reading))),
            Err(ProcessTrouble::Gone(_)) if one.pid != root => {}
            Err(error) if one.pid == root => return Err(trouble(error)),
            Err(error) => terminal::tell(format_args!("left out: {error}")),
        }
    }
    let count = found.len();
    found.retain(|(_, planned)| !planned.is_empty());
    let expected = expected(&found);
    if !flags.json {
        terminal::print_plain(&asked(root, count, found.len(), &expected))?;
    }
    if found.is_empty() || !(flags.dry_run || flags.yes || confirmed()?) {
        return Ok(ExitCode::from(if found.is_empty() { 0 } else { REFUSED }));
    }
    // The user has already agreed to all of them, so none is asked for again.
    let each = GiveBackFlags { yes: !flags.dry_run, ..flags.clone() };
    let (mut worst, mut done, mut given) = (ExitCode::SUCCESS, 0, 0);
    for (reading, planned) in &found {
        let (code, account) = of_one(&each, reading, planned, limits)?;
        if code != ExitCode::SUCCESS {
            worst = code;
        }
        if let Some(bytes) = account.given().filter(|_| account.is_done()) {
            done += 1;
            given += bytes;
        }
    }
    if !flags.json && !flags.dry_run {
        let processes = if done == 1 { "1 process" } else { &format!("{done} processes") };
        terminal::print_plain(&format!("given back in {processes}: {} (expected: {expected})\n", Bytes(given)))?;
    }
    Ok(worst)
}

/// What all of them would give back together, in words.
fn expected(found: &[(Reading, Vec<HeapPlan>)]) -> String {
    let plans: Vec<HeapPlan> = found.iter().flat_map(|(_, planned)| planned.iter().copied()).collect();
    let up_to = if plans.iter().any(|one| one.at_most) { "up to " } else { "" };
    forecast(&plans).map_or_else(|| "an amount that is not known".into(), |bytes| format!("{up_to}{}", Bytes(bytes)))
}

/// What would be done, for a person.
fn asked(root: u32, count: usize, giving: usize, expected: &str) -> String {
    let begin = format!("process {root} and its children: ");
    match giving {
        0 => format!("{begin}of {count} processes none would give memory back\n"),
        some => format!("{begin}{some} of {count} processes would give back {expected} together\n"),
    }
}
