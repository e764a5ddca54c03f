//! Reads many processes: those of a tree, or all. In: flags. Out: a line for each process, or the sum of a tree.

use std::process::ExitCode;

use super::limits::{memory, shares, time};
use super::saved::Saved;
use super::told::{is_undivided, json, trouble};
use crate::args::HeapFlags;
use crate::commands::readings::{or_unread, without_map};
use crate::commands::terminal;
use allocanary_heap::reader::{Crowd, workers};
use allocanary_heap::{ProcessTrouble, Reading, processes, tree};
use allocanary_rows::error::Result;
use allocanary_screens::views::heap as reports;

/// Reads a process and its children.
pub fn below(flags: &HeapFlags, root: u32) -> Result<ExitCode> {
    let all = processes();
    let pids: Vec<u32> = tree(&all, root).iter().map(|one| one.pid).collect();
    if pids.is_empty() {
        return Err(trouble(ProcessTrouble::Gone(root)));
    }
    let mut readings = Vec::new();
    let code = many(flags, &pids, |reading| {
        match flags.json {
            true => terminal::print(json(&reading)?.as_bytes()).map(drop)?,
            false => readings.push(without_map(&reading)),
        }
        Ok(())
    })?;
    if !flags.json {
        // The order is that of their starts, not that of the readings.
        readings.sort_by_key(|reading| pids.iter().position(|pid| *pid == reading.process.pid));
        terminal::print(reports::tree(&readings, &terminal::look()).as_bytes())?;
    }
    Ok(code)
}

/// Reads every process that has a program and may be read. Prints a line for each as soon as it is read.
pub fn all(flags: &HeapFlags) -> Result<ExitCode> {
    let own = std::process::id();
    let all: Vec<_> = processes().into_iter().filter(|one| one.pid != own).collect();
    let readable = all.iter().filter(|one| !one.executable.is_empty());
    let pids: Vec<u32> = readable.map(|one| one.pid).collect();
    let look = terminal::look();
    let mut table = reports::ProcessLines::default();
    let code = many(flags, &pids, |reading| {
        let text = if flags.json { json(&reading)? } else { table.line(&reading, &look) };
        terminal::print(text.as_bytes()).map(drop)
    })?;
    if !flags.json {
        terminal::print(table.end(&look).as_bytes())?;
    }
    Ok(code)
}

/// Reads processes, several at a time. Processes that have ended are left out, and those that may not be read are
/// reported. Each reading is saved, and passed to `shown`, as soon as it is made.
fn many(flags: &HeapFlags, pids: &[u32], mut shown: impl FnMut(Reading) -> Result<()>) -> Result<ExitCode> {
    let (memory, time) = (memory(flags)?, time(flags)?);
    let crowd = Crowd { workers: workers(), memory, time, map: flags.save.is_some(), shares: shares(flags) };
    let mut saved: Option<Saved> = None;
    let (mut undivided, mut any, mut first) = (false, false, None);
    crowd.read(pids, |pid, read| {
        let reading = match or_unread(pid, read) {
            Ok(reading) => reading,
            Err(ProcessTrouble::Gone(_)) => return Ok(()),
            Err(error) => {
                terminal::tell(format_args!("left out: {error}"));
                first.get_or_insert(error);
                return Ok(());
            }
        };
        // An existing file is kept until there is a reading.
        if let (None, Some(file)) = (&saved, &flags.save) {
            saved = Some(Saved::create(file)?);
        }
        if let Some(saved) = &mut saved {
            saved.add(&reading)?;
        }
        any = true;
        undivided |= is_undivided(&reading);
        shown(reading)
    })?;
    match (any, first) {
        (false, Some(error)) => Err(trouble(error)),
        _ => Ok(ExitCode::from(u8::from(undivided))),
    }
}
