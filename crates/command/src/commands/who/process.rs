//! `allocanary who PID`: the call sites of a running process, from the samples in its memory. In: a profiled process.
//! Out: a table, an answer, JSON, files for other tools, the difference from an earlier JSON.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use super::super::form::Form;
use super::super::reader::{self, Unread};
use super::super::{named, terminal};
use super::asked::{WhoQuestion, Written};
use crate::args::{OutputFlags, WhoFlags};
use allocanary_heap::LiveProcess;
use allocanary_heap::reader::{MEMORY, Reader};
use allocanary_names::FrameNames;
use allocanary_profile::reader as profile_reader;
use allocanary_rows::error::{Error, Result};
use allocanary_screens::draw::short;
use allocanary_screens::views::who::sampled as reports;
use allocanary_sys::{input, private};
use allocanary_text::outside::{TerminalStyle, harmless, harmless_lines};
use allocanary_who::fold::{BYS, Skip};
use allocanary_who::sampled::NamedProfile;
use allocanary_who::{By, Folding, SiteOrder, collapsed, profile};

/// The process that the argument names. A number is a process, even if a file has this name: anybody may have made the file. `./1` is a
/// file.
pub fn of(trace: &Path) -> Option<u32> {
    trace.to_str()?.parse().ok()
}

/// The time for reading the samples and naming their functions.
const DEADLINE: Duration = Duration::from_secs(60);

/// Has a child read the process, prints, and writes.
pub fn run(flags: &WhoFlags, pid: u32, by: By) -> Result<ExitCode> {
    refuse(flags, by)?;
    named::with_memory("who", pid)?;
    let TerminalStyle { color, width } = terminal::look();
    let form = match flags.output {
        OutputFlags { json: true, .. } => Form::Json,
        OutputFlags { short: true, .. } => Form::Short { color, width },
        _ => Form::Text { color, width },
    };
    let against: Option<Result<_>> = flags.against.as_ref().map(|old| {
        let text = input::text(old).map_err(|error| Error::file(old, "reading", error))?;
        Ok((old.display().to_string(), text))
    });
    let mut wanted = WhoQuestion {
        by: flags.by.clone(),
        is_not_folded: flags.no_fold,
        skip: flags.skip.clone(),
        sort: flags.sort.clone(),
        top: flags.top.map(|top| top as usize),
        form,
        against: against.transpose()?,
        format: flags.format.clone(),
        is_brief: false,
    };
    let mut child = Reader::new(MEMORY);
    let mut answer = reader::sites(&mut child, pid, &wanted, DEADLINE);
    // The debug information of a large program may need more than the child has.
    if let Err(Unread::Cost(why)) = &answer {
        terminal::tell(format_args!("who: process {pid}: {why}: it is read again without debug information"));
        wanted.is_brief = true;
        answer = reader::sites(&mut child, pid, &wanted, DEADLINE);
    }
    let written = answer.map_err(|error| match error {
        Unread::Cost(why) => Error::Input(format!("who: process {pid}: {why}")),
        Unread::Told(why) => Error::Input(why),
    })?;
    if let (Some(format), Some(file), Some(bytes)) = (&flags.format, &flags.to, &written.file) {
        private::replace(file, bytes).map_err(|error| Error::file(file, "writing the stacks", error))?;
        terminal::tell(format_args!("{format}: {}", file.display()));
    }
    match form {
        Form::Text { .. } => terminal::print_answer(&written.text),
        _ => terminal::print_plain(&written.text),
    }
}

/// The child's side: reads the samples, and names their functions.
pub fn written_by(pid: u32, wanted: &WhoQuestion) -> std::result::Result<Written, String> {
    let live = LiveProcess::open(pid).map_err(|error| format!("who: {error}"))?;
    let read = profile_reader::read(&live).map_err(|error| format!("who: {error}"))?;
    let reading = NamedProfile::of(read);
    let path = reading.program();
    let name = Path::new(&path).file_name().map_or_else(|| path.clone(), |name| name.to_string_lossy().into_owned());
    let mut names = reading.names();
    if wanted.is_brief {
        names = names.without_debug();
    }
    let by = BYS.iter().find(|(name, _)| *name == wanted.by).map_or(By::Function, |(_, by)| *by);
    let folding = Folding { is_off: wanted.is_not_folded, skip: Skip(wanted.skip.clone()), ..Folding::default() };
    let groups = reading.groups(&mut names, by, &folding);
    let found = reading.sites(&name, by, &groups, names.notes());
    let file = wanted.format.as_ref().map(|format| {
        let order =
            if wanted.sort.as_deref() == Some("allocated") { SiteOrder::Allocated } else { SiteOrder::Requested };
        of_format(format, order, &reading, &path, &mut names, &folding, &found.notes)
    });
    let file = file.transpose()?;
    let (look, top) = (wanted.form.look(), wanted.top);
    let brief = |answer| harmless_lines(&short(&[answer], &look)).into_owned();
    let text = match &wanted.against {
        Some((old, text)) => {
            let wrong = |error| format!("--against {old}: {error}");
            let earlier = reports::EarlierBytes::of(text).map_err(wrong)?;
            let growths = reports::growths(&earlier, &found).map_err(wrong)?;
            let answer = reports::difference_answer(&earlier, &growths, &found);
            match wanted.form {
                Form::Json => reports::difference_json(answer, &growths, &found, top),
                Form::Short { .. } => brief(answer),
                Form::Text { .. } => reports::difference(&answer, &growths, &found, top, &look),
            }
        }
        None => match wanted.form {
            Form::Json => reports::json(&found, top),
            Form::Short { .. } => brief(reports::answer(&found)),
            Form::Text { .. } => reports::text(&found, top, &look),
        },
    };
    Ok(Written { text, file })
}

/// Refuses flags that only a trace can answer.
fn refuse(flags: &WhoFlags, by: By) -> Result<()> {
    let sort = flags.sort.as_deref();
    let given = [
        ("--at", flags.at.is_some()),
        ("--under", flags.under.is_some()),
        ("--what-if", flags.what_if.is_some()),
        ("--callers", flags.callers.is_some()),
        ("--gate", flags.gate.is_some()),
        ("--by thread", by == By::Thread),
        ("--sort pinned", sort == Some("pinned")),
        ("--sort grows", sort == Some("grows")),
    ];
    match given.iter().find(|(_, is_given)| *is_given) {
        None => Ok(()),
        Some((flag, _)) => Err(Error::Input(format!(
            "{flag}: wanted a trace, found process {}: samples do not say that; record a trace with `allocanary record --stack-sample all`",
            harmless(&flags.trace.to_string_lossy())
        ))),
    }
}

/// The bytes of a file for another tool.
fn of_format(
    format: &str,
    order: SiteOrder,
    reading: &NamedProfile,
    path: &str,
    names: &mut FrameNames<'_>,
    folding: &Folding,
    notes: &[String],
) -> std::result::Result<Vec<u8>, String> {
    let wrong = |error: String| format!("--format {format}: {error}");
    let of = reading.of_stacks();
    if format == "pprof" {
        let what = profile::ProfileSource::Samples(reading.mean());
        return profile::pprof(path, &reading.stacks, &of, names, folding, what, notes)
            .map_err(|error| wrong(error.to_string()));
    }
    let lines = collapsed::collapsed(&of, names, folding, order);
    match format {
        "collapsed" => Ok(lines.into_bytes()),
        _ if lines.is_empty() => Err(wrong("no sampled block is alive: ask for --sort allocated".into())),
        _ => collapsed::flamegraph(&format!("{path}, now"), &lines, order).map_err(wrong),
    }
}
