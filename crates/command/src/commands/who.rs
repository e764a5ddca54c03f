//! `allocanary who`: which call sites of a trace hold memory, and whose blocks pin pages. In: a trace with stacks. Out: a table, an answer,
//! JSON, and files for other tools.

mod against;
pub(super) mod asked;
mod groups;
mod picked;
pub(super) mod process;
pub(super) mod program;
mod under;
mod what_if;

use std::process::ExitCode;

use super::terminal;
use crate::args::{OutputFlags, WhoFlags};
use allocanary_names::FrameNames;
use allocanary_rows::error::{Error, Result};
use allocanary_screens::draw::short;
use allocanary_screens::views::who as reports;
use allocanary_sys::private;
use allocanary_text::outside::{harmless, harmless_lines};
use allocanary_text::units::parse_duration;
use allocanary_trace::reader::Trace;
use allocanary_trace::stacks::{Resident, Stacks};
use allocanary_who::fold::BYS;
use allocanary_who::order::ORDERS;
use allocanary_who::{BlockTally, By, Folding, MomentChoice, SiteOrder, Under, callers, collapsed, profile, sites};
use groups::{folding, groups};
use program::program;

/// Reads the trace, and prints and writes what the flags request.
pub fn run(flags: &WhoFlags) -> Result<ExitCode> {
    let wanted = flags.at.as_deref().map(wanted).transpose()?;
    let by = BYS.iter().find(|(name, _)| *name == flags.by).map_or(By::Function, |(_, by)| *by);
    if let (Some(format), By::Thread) = (&flags.format, by) {
        return Err(Error::Input(format!("--format {format}: it has whole stacks: leave out --by thread")));
    }
    if let (Some(_), By::Thread) = (&flags.callers, by) {
        return Err(Error::Input("--callers: wanted --by function, line or module, found --by thread".into()));
    }
    if let Some(pid) = process::of(&flags.trace) {
        return process::run(flags, pid, by);
    }
    if let Some(old) = &flags.against {
        return against::run(flags, old, wanted, by);
    }
    if let Some(site) = &flags.what_if {
        return what_if::run(flags, site, wanted, by);
    }
    let trace = Trace::open(&flags.trace)?;
    // Events have their threads even if a trace has no stacks.
    if let Some(why) = trace.header.without_stacks().filter(|_| by != By::Thread) {
        return Err(Error::Input(format!("{}: {why}; --by thread needs none", flags.trace.display())));
    }
    let stacks = trace.stacks()?;
    let by_thread = by == By::Thread;
    let mut replayed = None;
    let (taken, resident, merged) = match &flags.under {
        None => sites::take_wanted(&trace, wanted, by_thread)?,
        Some(candidate) => {
            let moment = sites::moment(&trace, wanted)?;
            let replay = replayed.insert(under::replayed(&flags.trace, &trace, candidate, &moment)?);
            // A replay stops between two events near the moment. The program's sites are taken at the same place, so
            // that both sides compare.
            sites::take(&trace, moment.behind(replay.events), by_thread)?
        }
    };
    let mut names = FrameNames::of(&stacks).with_map_of(&flags.trace);
    let program = program(&trace);
    let groups = groups(flags, &taken, &mut names, by)?;
    let mut found = sites::of_groups(&program, &taken, resident.as_ref(), by, &groups, names.notes());
    let mut other = None;
    if let Some(replayed) = replayed {
        let (taken, resident) =
            allocanary_who::under::take(&trace, &found.moment, replayed.events, by == By::Thread, &replayed.placed)?;
        let found = sites::find(&program, &taken, Some(&resident), &mut names, by, &folding(flags));
        other = Some(Under { candidate: replayed.candidate, found });
    }
    let other = other.as_ref();
    found.notes.extend(sites::limits(&trace, &found, &merged, &stacks));
    let order =
        flags.sort.as_ref().and_then(|sort| ORDERS.iter().find(|(name, _)| name == sort)).map(|(_, order)| *order);
    let by_default = order.unwrap_or_else(|| SiteOrder::of(&found));
    if let (Some(format), Some(file)) = (&flags.format, &flags.to) {
        let title = format!("{program}, {}", found.moment.words);
        let of = Whole {
            program: &trace.header.program,
            stacks: &stacks,
            taken: &taken,
            resident: resident.as_ref(),
            notes: &found.notes,
        };
        let bytes = written(format, &title, of, &mut names, &groups.folding, by_default)?;
        private::replace(file, &bytes).map_err(|error| Error::file(file, "writing the stacks", error))?;
        terminal::tell(format_args!("{format}: {}", file.display()));
    }
    let look = terminal::look();
    let shown = reports::SiteDisplay { order, top: flags.top.map(|top| top as usize) };
    if let Some(text) = flags.callers.as_ref().filter(|_| !flags.output.short) {
        let site = picked::name(&found, "--callers", text)?;
        let tree = callers::of(&taken, resident.as_ref(), &groups, &mut names, &found, &site, by_default);
        let tree = tree.expect("it was found by its name");
        let text = match flags.output.json {
            true => reports::callers::json(&found, &tree, by_default),
            false => reports::callers::text(&found, &tree, by_default, &look),
        };
        return terminal::print(text.as_bytes());
    }
    let text = match flags.output {
        OutputFlags { json: true, .. } => reports::json(&found, other, shown),
        OutputFlags { short: true, .. } => {
            harmless_lines(&short(&[reports::answer(&found, other)], &look)).into_owned()
        }
        _ => reports::text(&found, other, shown, &look),
    };
    terminal::print(text.as_bytes())
}

/// The moment of --at.
fn wanted(text: &str) -> Result<MomentChoice> {
    let time = || parse_duration(text).and_then(|time| u64::try_from(time.as_nanos()).ok());
    match text {
        "peak" => Ok(MomentChoice::Peak),
        "idle" => Ok(MomentChoice::Idle),
        "end" => Ok(MomentChoice::End),
        _ => time().map(MomentChoice::At).ok_or_else(|| {
            let found = harmless(text);
            Error::Input(format!(
                "--at: wanted peak, idle, end, or a time after the start such as 12s; found `{found}`"
            ))
        }),
    }
}

/// The data from which the files for other tools are made.
struct Whole<'a> {
    program: &'a str,
    stacks: &'a Stacks,
    taken: &'a BlockTally,
    resident: Option<&'a Resident>,
    notes: &'a [String],
}

/// The bytes of a file for another tool.
fn written(
    format: &str,
    title: &str,
    whole: Whole<'_>,
    names: &mut FrameNames<'_>,
    folding: &Folding,
    order: SiteOrder,
) -> Result<Vec<u8>> {
    let of = sites::stacks(whole.taken, whole.resident);
    let wrong = |error: String| Error::Input(format!("--format {format}: {error}"));
    match format {
        "pprof" => {
            let what = profile::ProfileSource::Trace;
            profile::pprof(whole.program, whole.stacks, &of, names, folding, what, whole.notes)
                .map_err(|error| wrong(error.to_string()))
        }
        "collapsed" => Ok(collapsed::collapsed(&of, names, folding, order).into_bytes()),
        _ => {
            let lines = collapsed::collapsed(&of, names, folding, order);
            if lines.is_empty() {
                let what = collapsed::what(order);
                return Err(wrong(format!("no stack has {what} bytes at this moment: ask for others with --sort")));
            }
            collapsed::flamegraph(title, &lines, order).map_err(wrong)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_a_word_or_a_time() {
        assert_eq!(wanted("peak").unwrap(), MomentChoice::Peak);
        assert_eq!(wanted("idle").unwrap(), MomentChoice::Idle);
        assert_eq!(wanted("end").unwrap(), MomentChoice::End);
        assert_eq!(wanted("1.5s").unwrap(), MomentChoice::At(1_500_000_000));
        for wrong in ["", "ends", "-1s", "9999999999999h"] {
            let error = wanted(wrong).unwrap_err().to_string();
            assert!(error.starts_with("--at: wanted peak, idle, end, or a time") && error.contains(wrong), "{error}");
        }
    }
}
