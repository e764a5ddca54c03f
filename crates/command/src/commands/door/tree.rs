//! `allocanary PROCESS --tree`: a process and its children, such as the workers of a service that forks. In: the first process. Out: a table of
//! them, and what to do about the one that can give the most.

use std::cmp::Reverse;
use std::process::ExitCode;

use super::super::{calls, reader, terminal};
use super::line::json;
use crate::args::DoorFlags;
use crate::commands::readings::{DEADLINE, or_unread, without_map};
use allocanary_doctor::remedies::{CallChecks, Remedy};
use allocanary_heap::reader::MEMORY;
use allocanary_heap::{ProcessTrouble, ReadMode, Reader, Reading, Shares, processes, tree};
use allocanary_rows::error::{Error, Result};
use allocanary_screens::draw::short;
use allocanary_screens::views::door::Alike;
use allocanary_screens::views::{door, heap as reports};
use allocanary_text::outside::harmless_lines;

/// Prints the table.
pub fn print(flags: &DoorFlags, root: u32) -> Result<ExitCode> {
    let mut all = read(root)?;
    let look = terminal::look();
    let rank = |remedies: &[Remedy]| remedies.first().map_or((u8::MAX, Reverse(0)), |first| first.rank(remedies));
    // If nothing can be done about any, the largest one says why. The first one is often a small master.
    let best = all.iter_mut().min_by_key(|(reading, remedies)| (rank(remedies), Reverse(reading.resident)));
    let (reading, remedies) = best.expect("one was read, or else there is an error");
    // Only this one is shown with a line to paste.
    *remedies = reader::remedies_of(&mut Reader::new(MEMORY), reading, &calls::checked(reading), DEADLINE);
    let (reading, remedies) = (reading.clone(), remedies.clone());
    let text = match &flags.output {
        output if output.json => all.iter().map(|(reading, remedies)| json(reading, remedies)).collect(),
        output if output.short => harmless_lines(&short(&[reports::brief(&reading, &remedies)], &look)).into_owned(),
        _ => {
            let readings: Vec<Reading> = all.iter().map(|(reading, _)| reading.clone()).collect();
            let count = all.iter().filter(|(one, _)| one.process.executable == reading.process.executable).count();
            let like = Alike { root, count, reclaimable: reclaimable(&all, &reading) };
            reports::tree(&readings, &look) + &door::of_one(&reading, &remedies, like, &look)
        }
    };
    terminal::print(text.as_bytes())
}

/// What the calls of all processes that run this program would give back.
fn reclaimable(all: &[(Reading, Vec<Remedy>)], like: &Reading) -> u64 {
    let alike = all.iter().filter(|(one, _)| one.process.executable == like.process.executable);
    let calls = alike.flat_map(|(_, remedies)| remedies).filter(|one| one.check.is_some() && one.refused().is_none());
    calls.filter_map(|one| one.gives.bytes()).sum()
}

/// Every process of the tree that can be read, in the order in which they were started, with its remedies.
fn read(root: u32) -> Result<Vec<(Reading, Vec<Remedy>)>> {
    let told = |error: ProcessTrouble| Error::Input(error.to_string());
    let (processes, mut child) = (processes(), Reader::new(MEMORY));
    let (mut all, mut first) = (Vec::new(), None);
    for one in tree(&processes, root) {
        match or_unread(one.pid, child.take_with(one.pid, ReadMode::Running, Shares::ByPages, DEADLINE)) {
            Ok(reading) => {
                let remedies = reader::remedies_of(&mut child, &reading, &CallChecks::default(), DEADLINE);
                all.push((without_map(&reading), remedies));
            }
            Err(ProcessTrouble::Gone(_)) => {}
            Err(error) => {
                terminal::tell(format_args!("left out: {error}"));
                first.get_or_insert(error);
            }
        }
    }
    match (all.is_empty(), first) {
        (true, Some(error)) => Err(told(error)),
        (true, None) => Err(told(ProcessTrouble::Gone(root))),
        _ => Ok(all),
    }
}
