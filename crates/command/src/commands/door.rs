//! `allocanary PROCESS`: what its memory is, what to do now and before the next release, and how to look deeper. In: a process, by its ID
//! or its name. Out: a screen, JSON, or a page. The process is read, and not changed.

mod line;
mod tree;
mod unstarted;

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use super::readings::{DEADLINE, or_unread};
use super::{calls, named, reader, terminal};
use crate::args::DoorFlags;
use allocanary_doctor::remedies::Remedy;
use allocanary_heap::reader::MEMORY;
use allocanary_heap::{ProcessSubject, ReadMode, Reader, Reading, processes};
use allocanary_rows::error::{Error, Result};
use allocanary_screens::draw::short;
use allocanary_screens::views::door::{Descendants, Seen};
use allocanary_screens::views::{door, heap as reports};
use allocanary_sys::private;
use allocanary_sys::proc::ProcStatus;
use allocanary_text::outside::harmless_lines;
use line::json;

/// Does what the flags request; `None` if they name neither a process nor a program. A name that no process has may be a misspelled verb
/// of `verbs`.
pub fn run(flags: &DoorFlags, verbs: &[&str]) -> Option<Result<ExitCode>> {
    match (&flags.process, flags.command.as_slice()) {
        (Some(process), _) => Some(of_process(flags, process, verbs)),
        (None, command @ [_, ..]) => Some(unstarted::print(command)),
        (None, []) => None,
    }
}

/// The process that a text names. With `name:` before it, the text is never taken for a verb.
fn find(text: &str, verbs: &[&str]) -> Result<u32> {
    match text.strip_prefix("name:") {
        Some(name) => named::find("", name),
        None => named::find_or_verb(text, verbs),
    }
}

fn of_process(flags: &DoorFlags, process: &str, verbs: &[&str]) -> Result<ExitCode> {
    let pid = find(process, verbs)?;
    if flags.tree {
        return tree::print(flags, pid);
    }
    let mut child = Reader::new(MEMORY);
    let started = Instant::now();
    let reading = or_unread(pid, child.take(pid, ReadMode::Running, DEADLINE));
    let mut reading = reading.map_err(|error| Error::Input(error.to_string()))?;
    reader::add_holders(&mut child, &mut reading, DEADLINE);
    let remedies = reader::remedies_of(&mut child, &reading, &calls::checked(&reading), DEADLINE);
    let took = started.elapsed();
    if let Some(file) = &flags.to {
        page(file, &reading, &remedies)?;
    }
    let look = terminal::look();
    let text = match &flags.output {
        output if output.json => json(&reading, &remedies),
        output if output.short => harmless_lines(&short(&[reports::brief(&reading, &remedies)], &look)).into_owned(),
        _ => door::screen(&reading, &remedies, &Seen { took, below: below(pid) }, &look),
    };
    terminal::print(text.as_bytes())
}

/// The memory of the processes that a process has started. One that has ended meanwhile has none.
fn below(pid: u32) -> Descendants {
    let all = processes();
    let resident = |one: &&ProcessSubject| ProcStatus::of(one.pid).ok().and_then(|status| status.all_resident());
    let sizes: Vec<u64> = allocanary_heap::tree(&all, pid).iter().skip(1).filter_map(resident).collect();
    Descendants { count: sizes.len(), resident: sizes.iter().sum() }
}

fn page(file: &Path, reading: &Reading, remedies: &[Remedy]) -> Result<()> {
    let page = reports::page(std::slice::from_ref(reading), remedies);
    private::replace(file, page.as_bytes()).map_err(|error| Error::file(file, "writing the page", error))?;
    terminal::tell(format_args!("page: {}", file.display()));
    Ok(())
}
