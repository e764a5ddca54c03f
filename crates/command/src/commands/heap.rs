//! `allocanary heap`: divides the memory of running processes into parts. In: a process, a name, or saved readings.
//! Out: a text, JSON, files of readings, a page.

mod contents;
mod limits;
mod many;
pub(super) mod sampled;
mod saved;
mod sites;
mod told;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use super::readings::{or_unread, without_map};
use super::{calls, named, reader, terminal};
use crate::args::HeapFlags;
use allocanary_doctor::remedies::{CallChecks, Remedy, remedies};
use allocanary_heap::{Difference, Frozen, ProcessSubject, ProcessTrouble, ReadMode, Reader, Reading};
use allocanary_rows::error::{Error, Result};
use allocanary_screens::draw::short;
use allocanary_screens::views::heap as reports;
use allocanary_sys::private;
use allocanary_sys::proc::ProcStatus;
use allocanary_text::outside::{harmless, harmless_lines};
use allocanary_text::units::{parse_duration, show_duration};
use limits::{memory, shares, time};
use saved::{Saved, load};
use told::{is_undivided, json, trouble};

/// Does what the flags request.
pub fn run(flags: &HeapFlags) -> Result<ExitCode> {
    let words: Vec<&str> = flags.what.iter().map(String::as_str).collect();
    if let Some(file) = flags.core.as_ref().filter(|_| flags.contents) {
        return contents::of_core(flags, file);
    }
    if let Some(file) = &flags.core {
        let reading = limited(flags)?.take_core(file, time(flags)?).map_err(trouble)?;
        let remedies = remedies(&reading, None, &CallChecks::default());
        return shown(flags, reading, &remedies);
    }
    match words.as_slice() {
        [] if flags.all => many::all(flags),
        [] => Err(Error::Input("heap: wanted a process ID, a name, or --all; found nothing".into())),
        ["diff", ..] if flags.json => refused("diff", "--json"),
        ["diff", ..] if flags.short => refused("diff", "--short"),
        ["diff", ..] if flags.to.is_some() => refused("diff", "--output"),
        ["diff" | "show", ..] if flags.save.is_some() => refused(words[0], "--save"),
        ["diff" | "show", ..] if flags.every.is_some() => refused(words[0], "--every"),
        ["diff" | "show", ..] if flags.freeze => refused(words[0], "--freeze"),
        ["diff" | "show", ..] if flags.exact_shares => refused(words[0], "--exact-shares"),
        ["diff" | "show", ..] if flags.timeout.is_some() => refused(words[0], "--timeout"),
        ["diff" | "show", ..] if flags.reader_memory.is_some() => refused(words[0], "--reader-memory"),
        ["diff" | "show", ..] if flags.tree => refused(words[0], "--tree"),
        ["diff" | "show", ..] if flags.contents => refused(words[0], "--contents"),
        ["diff", before, after] => difference(Path::new(before), Path::new(after)),
        ["diff", ..] => Err(Error::Input("heap diff: wanted two files of `allocanary heap PID --save FILE`".into())),
        ["show", file] => show(flags, Path::new(file)),
        ["show", ..] => Err(Error::Input("heap show: wanted one file of `allocanary heap PID --save FILE`".into())),
        [process] if flags.tree => many::below(flags, named::find("heap", process)?),
        [process] if flags.contents => contents::once(flags, named::find("heap", process)?),
        [process] => match &flags.every {
            Some(every) => watch(flags, named::find("heap", process)?, every),
            None => once(flags, named::find("heap", process)?),
        },
        [_, more, ..] => Err(Error::Input(format!("heap: wanted one process, found `{}` as well", harmless(more)))),
    }
}

/// The error for a flag that a verb does not take.
fn refused(verb: &str, flag: &str) -> Result<ExitCode> {
    Err(Error::Input(format!("heap {verb}: it has no {flag}")))
}

/// Reads a process. If the user wants it stopped, the expected pause is printed first.
fn read(
    flags: &HeapFlags,
    reader: &mut Reader,
    pid: u32,
    time: Duration,
) -> std::result::Result<Reading, ProcessTrouble> {
    if !flags.freeze {
        return or_unread(pid, reader.take_with(pid, ReadMode::Running, shares(flags), time));
    }
    let resident = ProcStatus::of(pid).ok().and_then(|status| status.anonymous).unwrap_or_default();
    let expected = show_duration(Frozen::expected_pause(resident));
    terminal::tell(format_args!("process {pid} stands still while it is read: about {expected} expected"));
    or_unread(pid, reader.take_with(pid, ReadMode::Stopped, shares(flags), time))
}

/// A reader with the memory limit of --reader-memory.
fn limited(flags: &HeapFlags) -> Result<Reader> {
    memory(flags).map(Reader::new)
}

fn once(flags: &HeapFlags, pid: u32) -> Result<ExitCode> {
    let (mut child, time) = (limited(flags)?, time(flags)?);
    let mut reading = read(flags, &mut child, pid, time).map_err(trouble)?;
    reader::add_holders(&mut child, &mut reading, time);
    let remedies = reader::remedies_of(&mut child, &reading, &calls::checked(&reading), time);
    shown(flags, reading, &remedies)
}

/// Saves and prints a reading.
fn shown(flags: &HeapFlags, reading: Reading, remedies: &[Remedy]) -> Result<ExitCode> {
    if let Some(file) = &flags.save {
        Saved::create(file)?.add(&reading)?;
    }
    print(flags, &[reading], remedies)
}

fn show(flags: &HeapFlags, file: &Path) -> Result<ExitCode> {
    if let Some(found) = contents::load(file)? {
        return contents::print(flags, &found);
    }
    let readings = load(file)?;
    let remedies = readings.last().map_or_else(Vec::new, |last| remedies(last, None, &CallChecks::default()));
    print(flags, &readings, &remedies)
}

/// Prints the last reading, and writes the page about all of them.
fn print(flags: &HeapFlags, readings: &[Reading], remedies: &[Remedy]) -> Result<ExitCode> {
    let Some(reading) = readings.last() else { return Ok(ExitCode::SUCCESS) };
    if let Some(file) = &flags.to {
        write_page(file, readings, remedies)?;
        terminal::tell(format_args!("page: {}", file.display()));
    }
    let look = terminal::look();
    let text = match flags {
        HeapFlags { json: true, .. } => json(reading)?,
        HeapFlags { short: true, .. } => {
            harmless_lines(&short(&[reports::brief(reading, remedies)], &look)).into_owned()
        }
        _ => reports::text(reading, remedies, &look),
    };
    terminal::print(text.as_bytes())?;
    Ok(ExitCode::from(u8::from(is_undivided(reading))))
}

fn write_page(file: &Path, readings: &[Reading], remedies: &[Remedy]) -> Result<()> {
    let page = reports::page(readings, remedies);
    private::replace(file, page.as_bytes()).map(drop).map_err(|error| Error::file(file, "writing the page", error))
}

fn difference(before: &Path, after: &Path) -> Result<ExitCode> {
    let last = |file: &Path| {
        let none = || Error::NoRows(format!("{}: no reading in it", file.display()));
        load(file)?.pop().ok_or_else(none)
    };
    match (contents::load(before)?, contents::load(after)?) {
        (Some(before), Some(after)) => return contents::difference(&before, &after),
        (None, None) => {}
        _ => {
            return Err(Error::Input(
                "heap diff: wanted two files with --contents, or two without; found one of each".into(),
            ));
        }
    }
    let found = Difference::of(&last(before)?, &last(after)?);
    terminal::print(reports::difference(&found, &terminal::look()).as_bytes())
}

/// Reads at this interval, until the process ends.
fn watch(flags: &HeapFlags, pid: u32, every: &str) -> Result<ExitCode> {
    let every = parse_duration(every).filter(|every| *every >= Duration::from_millis(100)).ok_or_else(|| {
        Error::Input(format!("heap: --every: wanted a time of 100ms or more, such as 5s; found `{}`", harmless(every)))
    })?;
    let (mut child, time) = (limited(flags)?, time(flags)?);
    let mut saved: Option<Saved> = None;
    let mut first: Option<ProcessSubject> = None;
    let mut history = Vec::new();
    let mut undivided = false;
    for number in 0_u64.. {
        let reading = match read(flags, &mut child, pid, time) {
            Ok(reading) if first.as_ref().is_none_or(|first| first.is_same(&reading.process)) => reading,
            Ok(_) | Err(ProcessTrouble::Gone(_) | ProcessTrouble::Changed(_)) if number > 0 => {
                terminal::tell(format_args!("process {pid} has ended, or runs another program"));
                break;
            }
            Ok(reading) => reading,
            Err(error) => return Err(trouble(error)),
        };
        if number == 0 {
            first = Some(reading.process.clone());
            // An existing file is kept until there is a reading.
            saved = flags.save.as_deref().map(Saved::create).transpose()?;
        }
        undivided = is_undivided(&reading);
        let head = if number == 0 && !flags.json { reports::head() } else { String::new() };
        let line = if flags.json { json(&reading)? } else { reports::line(&reading) };
        terminal::print((head + &line).as_bytes())?;
        let small = without_map(&reading);
        if let Some(saved) = &mut saved {
            saved.add(&small)?;
        }
        if let Some(file) = &flags.to {
            // Only the latest reading needs its map. Earlier ones lose theirs.
            history.push(reading);
            write_page(file, &history, &remedies(&small, None, &CallChecks::default()))?;
            history.pop();
            history.push(small);
        }
        std::thread::sleep(every);
    }
    Ok(ExitCode::from(u8::from(undivided)))
}
