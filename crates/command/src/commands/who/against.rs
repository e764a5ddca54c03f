//! `allocanary who NEW --against OLD`: the sites that hold more than before. In: two traces, or a trace and an earlier
//! JSON; a gate. Out: a table, an answer, JSON, and an exit code for CI.

use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

use super::super::terminal;
use super::groups::groups;
use super::program::program;
use crate::args::{OutputFlags, WhoFlags};
use allocanary_measure::summary::MetricLimit;
use allocanary_names::FrameNames;
use allocanary_rows::error::{Error, Result};
use allocanary_screens::draw::short;
use allocanary_screens::views::who::against::{TraceComparison, before};
use allocanary_sys::input;
use allocanary_text::outside::{harmless, harmless_lines};
use allocanary_trace::reader::Trace;
use allocanary_who::against::EarlierSites;
use allocanary_who::{By, MomentChoice, SiteReport, sites};

/// The number of sites in the table without --top.
const TOP: usize = 15;

/// Compares, prints, and judges.
pub fn run(flags: &WhoFlags, old: &Path, wanted: Option<MomentChoice>, by: By) -> Result<ExitCode> {
    if matches!(by, By::Thread | By::Line) {
        let by = &flags.by;
        return Err(Error::Input(format!(
            "--against: wanted --by function or module, found --by {by}: a {by} has another number in another run or version"
        )));
    }
    let gate = flags.gate.as_deref().map(gate).transpose()?;
    let wrong = |error| Error::Input(format!("--against {}: {error}", old.display()));
    let (earlier, notes) = match is_json(old)? {
        true => {
            let text = input::text(old).map_err(|error| Error::file(old, "reading", error))?;
            (before(&text).map_err(wrong)?, Vec::new())
        }
        false => {
            let found = found(flags, old, wanted, by)?;
            (EarlierSites::of(&found), found.notes)
        }
    };
    let found = found(flags, &flags.trace, wanted, by)?;
    let mut comparison = TraceComparison::of(earlier, &found, gate).map_err(wrong)?;
    comparison.notes.extend(notes.iter().map(|note| format!("The earlier trace: {note}")));
    comparison.notes.extend(found.notes.iter().cloned());
    let look = terminal::look();
    let top = flags.top.map(|top| top as usize);
    let text = match flags.output {
        OutputFlags { json: true, .. } => comparison.json(top),
        OutputFlags { short: true, .. } => harmless_lines(&short(&[comparison.short()], &look)).into_owned(),
        _ => comparison.text(top.unwrap_or(TOP), &look),
    };
    terminal::print(text.as_bytes())?;
    Ok(if comparison.passes() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// The share of `site=5%`.
fn gate(text: &str) -> Result<f64> {
    match MetricLimit::parse(text) {
        Ok(("site", most)) => Ok(most),
        _ => Err(Error::Input(format!("--gate: wanted site=PERCENT such as site=5%, found `{}`", harmless(text)))),
    }
}

/// Whether a file is the JSON of an earlier answer. A trace begins with another character.
fn is_json(path: &Path) -> Result<bool> {
    let mut first = [0];
    let mut file = std::fs::File::open(path).map_err(|error| Error::file(path, "opening", error))?;
    // The file is opened a second time later, so it cannot be a pipe.
    if !file.metadata().is_ok_and(|meta| meta.is_file()) {
        return Err(Error::Input(format!("--against {}: wanted a file, found a pipe or a folder", path.display())));
    }
    let count = file.read(&mut first).map_err(|error| Error::file(path, "reading", error))?;
    Ok(count == 1 && first == *b"{")
}

/// The sites of a trace.
fn found(flags: &WhoFlags, path: &Path, wanted: Option<MomentChoice>, by: By) -> Result<SiteReport> {
    let trace = Trace::open(path)?;
    if let Some(why) = trace.header.without_stacks() {
        return Err(Error::Input(format!("{}: {why}", path.display())));
    }
    let stacks = trace.stacks()?;
    let (taken, resident, merged) = sites::take_wanted(&trace, wanted, false)?;
    let mut names = FrameNames::of(&stacks).with_map_of(path);
    let groups = groups(flags, &taken, &mut names, by)?;
    let mut found = sites::of_groups(&program(&trace), &taken, resident.as_ref(), by, &groups, names.notes());
    found.notes.extend(sites::limits(&trace, &found, &merged, &stacks));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_is_of_sites() {
        assert_eq!(gate("site=5%").unwrap(), 0.05);
        for wrong in ["resident=5%", "5%", "site", "site=x"] {
            let error = gate(wrong).unwrap_err().to_string();
            assert!(error.contains("wanted site=PERCENT") && error.contains(wrong), "{error}");
        }
    }
}
