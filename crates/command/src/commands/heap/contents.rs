//! `heap PID --contents`: what the heap contains. In: a process, a core file, or saved contents. Out: a text, JSON, a file that only this user can read.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use allocanary_contents::{Contents, SCHEMA, Target};
use allocanary_heap::Frozen;
use allocanary_heap::reader::{MEMORY, Reader};
use allocanary_rows::error::{Error, Result};
use allocanary_screens::views::contents as reports;
use allocanary_sys::proc::ProcStatus;
use allocanary_sys::{input, private};
use allocanary_text::outside::harmless;
use allocanary_text::units::{Bytes, parse_bytes, show_duration};

use super::limits::{memory, time};
use super::sites;
use crate::args::HeapFlags;
use crate::commands::reader::{self, ContentsOptions, ContentsSource, Unread};
use crate::commands::terminal;

/// How much of a process may be copied without --copy-limit.
const LIMIT: u64 = 2 << 30;
/// Blocks of 8 bytes need about twelve times their bytes while they are examined. Larger blocks need less.
const TIMES: u64 = 12;
/// For a process with at least this many bytes, the command first prints how much memory and time the reading may take.
const LARGE: u64 = 256 << 20;
/// The bytes that are copied of a process if copying all of it takes too much.
const SAMPLE: u64 = 256 << 20;

/// Reads a process, and prints what its heap contains.
pub fn once(flags: &HeapFlags, pid: u32) -> Result<ExitCode> {
    let resident = ProcStatus::of(pid).ok().and_then(|status| status.anonymous).unwrap_or_default();
    if flags.freeze {
        let expected = show_duration(Frozen::expected_pause(resident));
        terminal::tell(format_args!(
            "process {pid} stands still while its memory is copied: about {expected} expected"
        ));
    }
    of(flags, ContentsSource::Process(pid), resident)
}

/// Reads a core file, and prints what its heap contains.
pub fn of_core(flags: &HeapFlags, file: &Path) -> Result<ExitCode> {
    let bytes = fs::metadata(file).map_err(|error| Error::file(file, "reading", error))?.len();
    of(flags, ContentsSource::Core(file.into()), bytes)
}

fn of(flags: &HeapFlags, of: ContentsSource, bytes: u64) -> Result<ExitCode> {
    let limit = limit(flags)?;
    let allowed = match &flags.reader_memory {
        Some(_) => memory(flags)?,
        None => MEMORY + TIMES * bytes.min(limit),
    };
    let trace = flags.trace.as_deref().map(sites::open).transpose()?;
    let time = time(flags)?;
    if bytes >= LARGE && bytes <= limit {
        terminal::tell(format_args!(
            "{} may be copied: that takes up to {} of memory (--reader-memory) and {} of processor time (--timeout)",
            Bytes(bytes),
            Bytes(allowed),
            show_duration(time)
        ));
    }
    let wanted = ContentsOptions {
        stopped: flags.freeze,
        limit,
        sampled: false,
        texts: flags.texts,
        addresses: trace.is_some(),
        target: target(flags)?,
        largest: flags.to.is_some(),
    };
    let found = reader::contents(&mut Reader::new(allowed), of.clone(), wanted.clone(), time);
    let found = found.or_else(|why| match why {
        Unread::Cost(why) => {
            sample(of, ContentsOptions { sampled: true, limit: limit.min(SAMPLE), ..wanted }, allowed, time, why)
        }
        Unread::Told(why) => Err(why),
    });
    let mut found = found.map_err(|error| Error::Input(format!("heap: --contents: {error}")))?;
    if let Some(trace) = &trace {
        sites::add(&mut found, trace)?;
    }
    if let Some(file) = &flags.save {
        let line = line(&found)?;
        private::replace(file, line.as_bytes())
            .map_err(|error| Error::file(file, "writing what a heap contains", error))?;
    }
    print(flags, &found)
}

/// The blocks whose holders the user asked for, if any.
fn target(flags: &HeapFlags) -> Result<Option<Target>> {
    let address = |text: &String| {
        // --json has addresses as decimal numbers.
        let found = match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => text.parse(),
        };
        found.map(Target::Address).map_err(|_| {
            Error::Input(format!(
                "heap: --to-address: wanted an address such as 0x55d0c0de1230; found `{}`",
                harmless(text)
            ))
        })
    };
    match &flags.to_address {
        Some(text) => address(text).map(Some),
        None => Ok(flags.kind.clone().map(Target::Kind)),
    }
}

/// Counts all blocks, and finds kinds by a sample. This is for a process whose whole reading takes too much.
fn sample(
    of: ContentsSource,
    wanted: ContentsOptions,
    allowed: u64,
    time: Duration,
    why: String,
) -> std::result::Result<Contents, String> {
    terminal::tell(format_args!("{why}: a sample is read instead"));
    let mut found = reader::contents(&mut Reader::new(allowed), of, wanted, time)?;
    found
        .problems
        .insert(0, format!("leaks and holders are not told: {why}; --timeout and --reader-memory allow more"));
    Ok(found)
}

fn limit(flags: &HeapFlags) -> Result<u64> {
    let Some(text) = &flags.copy_limit else { return Ok(LIMIT) };
    parse_bytes(text).ok_or_else(|| {
        Error::Input(format!("heap: --copy-limit: wanted a size such as 2GiB; found `{}`", harmless(text)))
    })
}

fn line(found: &Contents) -> Result<String> {
    let line = serde_json::to_string(found);
    line.map(|line| line + "\n").map_err(|error| Error::Input(format!("heap: --contents: {error}")))
}

/// Prints contents. The exit code tells whether leaks could be found. For a core file, it also tells whether the program was there, which
/// has the names.
pub fn print(flags: &HeapFlags, found: &Contents) -> Result<ExitCode> {
    if let Some(file) = &flags.to {
        let page = reports::page(found);
        private::replace(file, page.as_bytes()).map_err(|error| Error::file(file, "writing the page", error))?;
        terminal::tell(format_args!("page: {}", file.display()));
    }
    let text = if flags.json { line(found)? } else { reports::text(found, &terminal::look()) };
    terminal::print(text.as_bytes())?;
    let program = found.process.raw_path();
    let is_nameless = found.core.as_ref().is_some_and(|core| core.absent_files.iter().any(|path| *path == program));
    Ok(ExitCode::from(u8::from(found.leaked.is_none() || is_nameless)))
}

/// Prints what changed between two contents.
pub fn difference(before: &Contents, after: &Contents) -> Result<ExitCode> {
    terminal::print(reports::difference(before, after, &terminal::look()).as_bytes())
}

/// The contents in a file. `None` if the file has readings of another kind.
pub fn load(path: &Path) -> Result<Option<Contents>> {
    const BEGIN: &[u8] = b"{\"contents\":";
    let wrong = |error| Error::file(path, "reading", error);
    let mut file = fs::File::open(path).map_err(wrong)?;
    let mut begin = [0; BEGIN.len()];
    if file.read_exact(&mut begin).is_err() || begin != BEGIN {
        return Ok(None);
    }
    let text = input::text(path).map_err(wrong)?;
    let refused = |what: String| Error::Input(format!("{}: {what}", path.display()));
    let found: Contents = serde_json::from_str(&text)
        .map_err(|error| refused(format!("wanted what `allocanary heap PID --contents --save` writes: {error}")))?;
    if found.contents != SCHEMA {
        let schema = found.contents;
        return Err(refused(format!(
            "wanted contents of schema {SCHEMA}, found {schema}: use the command that wrote it"
        )));
    }
    Ok(Some(found))
}
