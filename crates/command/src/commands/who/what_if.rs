//! `allocanary who TRACE --what-if SITE`: how much less the heap keeps if a site's blocks are in a pool. In: a trace
//! with stacks, a site. Out: an answer, a table, JSON.

use std::collections::HashSet;
use std::path::Path;
use std::process::ExitCode;

use tempfile::{NamedTempFile, TempPath};

use super::super::terminal;
use super::groups::{folding, groups};
use super::picked;
use super::program::program;
use super::under::{MomentReplays, named};
use crate::args::{OutputFlags, WhoFlags};
use allocanary_measure::summary::LEAST_SAMPLES;
use allocanary_names::FrameNames;
use allocanary_rows::error::{Error, Result};
use allocanary_screens::draw::short;
use allocanary_screens::views::who::what_if::WhatIfView;
use allocanary_text::outside::harmless_lines;
use allocanary_trace::placed::Placed;
use allocanary_trace::prepare::{Elsewhere, write_elsewhere};
use allocanary_trace::reader::Trace;
use allocanary_trace::stacks::{StackId, Stacks};
use allocanary_who::what_if::{self, ReplayHeap, Sets, Ways};
use allocanary_who::{By, MomentChoice, WhatIf, sites, under};

/// The number of replays of each way: an interval needs at least this many.
const REPEATS: usize = LEAST_SAMPLES;

/// Replays, compares and prints.
pub fn run(flags: &WhoFlags, site: &str, wanted: Option<MomentChoice>, by: By) -> Result<ExitCode> {
    if by == By::Thread {
        return Err(Error::Input(
            "--what-if: wanted --by function, line or module, found --by thread: a thread is no site".into(),
        ));
    }
    let trace = Trace::open(&flags.trace)?;
    if trace.header.stacks != 1 {
        let found = match trace.header.stacks {
            0 => "no stacks".to_string(),
            one_in => format!("the stacks of one in {one_in}"),
        };
        return Err(Error::Input(format!(
            "{}: --what-if: wanted the stacks of all allocations, found {found}: record again with --stack-sample all",
            flags.trace.display()
        )));
    }
    let stacks = trace.stacks()?;
    let mut names = FrameNames::of(&stacks).with_map_of(&flags.trace);
    let found = measured(flags, &trace, &stacks, &mut names, site, wanted, by)?;
    let (report, look) = (WhatIfView::of(&found), terminal::look());
    let text = match flags.output {
        OutputFlags { json: true, .. } => report.json(),
        OutputFlags { short: true, .. } => harmless_lines(&short(&[report.answer()], &look)).into_owned(),
        _ => report.text(&look),
    };
    terminal::print(text.as_bytes())
}

fn measured(
    flags: &WhoFlags,
    trace: &Trace,
    stacks: &Stacks,
    names: &mut FrameNames<'_>,
    text: &str,
    wanted: Option<MomentChoice>,
    by: By,
) -> Result<WhatIf> {
    let program = program(trace);
    let moment = sites::moment(trace, wanted)?;
    // If the user named no allocator and this build does not have the program's, the answer is still useful without
    // replays.
    let asked = flags.under.as_ref().map_or("--what-if".into(), |under| format!("--what-if: --under {under}"));
    let candidate = match (named(trace, flags.under.as_deref().unwrap_or("own"), &asked), &flags.under) {
        (Err(error), None) => Err(error.to_string()),
        (candidate, _) => Ok(candidate?),
    };
    let replay = candidate.map(|candidate| MomentReplays::of(&flags.trace, trace, candidate, &moment, asked));
    let replay = match replay {
        Ok(replay) => Ok(replay?),
        Err(why) => Err(why),
    };
    // A replay stops between two events near the moment.
    let moment = replay.as_ref().map_or(moment.clone(), |replay| moment.behind(replay.events));
    let (taken, resident, merged) = sites::take(trace, moment, false)?;
    let groups = groups(flags, &taken, names, by)?;
    let found = sites::of_groups(&program, &taken, resident.as_ref(), by, &groups, names.notes());
    let site = what_if::named(&found, &picked::name(&found, "--what-if", text)?);
    let mut notes = found.notes.clone();
    let (share, replays) = match replay {
        Err(why) => {
            notes.extend(sites::limits(trace, &found, &merged, stacks));
            (site.share, Err(why))
        }
        Ok(replay) => {
            let of = what_if::stacks(&taken, &groups, &site.name);
            let ways = replayed(trace, of, &site.name, &replay)?;
            let (taken, resident) = under::take(trace, &found.moment, replay.events, false, &ways.0)?;
            let there = sites::find(&found.program, &taken, Some(&resident), names, by, &folding(flags));
            let ways = ways.1;
            // The figures are from replays, whose resident pages are known.
            notes.extend(sites::limits(trace, &there, &merged, stacks));
            (what_if::named(&there, &site.name).share, Ok((replay.candidate, ways)))
        }
    };
    let (moment, nanos) = (found.moment, found.nanos);
    Ok(WhatIf { program, moment, nanos, by, site, share, replays, notes })
}

/// Replays all three ways in turn. The blocks of the stacks `of` are in a pool in two of them. Returns the addresses of
/// the blocks without a pool, and what the heap keeps in each way.
fn replayed(trace: &Trace, of: HashSet<StackId>, site: &str, replay: &MomentReplays) -> Result<(Placed, Ways)> {
    let Sets { survivors, whole } = what_if::sets(trace, of, replay.events)?;
    let form = |elsewhere: &Elsewhere| -> Result<Option<TempPath>> {
        (elsewhere.count() > 0).then(|| form(trace, replay, elsewhere)).transpose()
    };
    let (survivors, whole) = (form(&survivors)?, form(&whole)?);
    terminal::tell(format_args!(
        "replaying {} under {}: as it is, with survivors of {} elsewhere, with the whole site elsewhere; {REPEATS} times each",
        replay.path, replay.candidate, site
    ));
    let mut ways = Ways::default();
    let mut first = None;
    for turn in 0..REPEATS {
        for at in 0..3 {
            // Each way runs first, second and third about equally often.
            let (form, heaps) = match (turn + at) % 3 {
                0 => (None, &mut ways.as_it_is),
                1 => (Some(&survivors), &mut ways.survivors),
                _ => (Some(&whole), &mut ways.whole),
            };
            let form = match form {
                None => None,
                Some(Some(form)) => Some(&**form),
                // The trace has no such block.
                Some(None) => continue,
            };
            let (placed, cpu) = replay.run(form)?;
            let unread = || Error::Cell(format!("{}: wanted the processor time of a replay, found none", replay.path));
            let cpu = cpu.ok_or_else(unread)?;
            heaps.push(ReplayHeap::of(&placed, cpu));
            if form.is_none() {
                first.get_or_insert(placed);
            }
        }
    }
    let first = first.expect("it was replayed as it is");
    let alike = |heaps: &[ReplayHeap]| heaps.iter().all(|heap| heap.blocks == first.blocks.len() as u64);
    if ![&ways.as_it_is, &ways.survivors, &ways.whole].into_iter().all(|heaps| alike(heaps)) {
        return Err(Error::Cell(format!("{}: the replays stopped with different blocks", replay.path)));
    }
    Ok((first, ways))
}

/// A prepared form of the trace with some blocks in a pool. It is next to the trace, because it is as large as the
/// trace's own form.
fn form(trace: &Trace, replay: &MomentReplays, elsewhere: &Elsewhere) -> Result<TempPath> {
    let folder = Path::new(&replay.path).parent().unwrap_or(Path::new("/"));
    let temporary = std::env::temp_dir();
    let file = NamedTempFile::new_in(folder).or_else(|_| NamedTempFile::new_in(&temporary));
    let file = file.map_err(|error| Error::file(&temporary, "making a file in", error))?;
    write_elsewhere(trace, file.as_file(), file.path(), replay.marks(), elsewhere)?;
    Ok(file.into_temp_path())
}
