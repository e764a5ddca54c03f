//! `allocanary who PID`: the call sites of a running process, from the samples in its memory. In: a profiled process.
//! Out: a table, an answer, JSON, files for other tools, the difference from an earlier JSON.

use std::path::Path;
use std::process::ExitCode;

use super::super::terminal;
use super::folding;
use allocanary_args::{OutputFlags, WhoFlags};
use allocanary_draw::short;
use allocanary_error::{Error, Result};
use allocanary_kernel::private;
use allocanary_kernel::terminal::{harmless, harmless_lines};
use allocanary_profile::reader;
use allocanary_views::who::sampled as reports;
use allocanary_who::sampled::Reading;
use allocanary_who::{By, Names, Order, collapsed, profile};

/// The process that the argument names. A number is a process, even if a file has this name: anybody may have made the file. `./1` is a
/// file.
pub fn of(trace: &Path) -> Option<u32> {
    trace.to_str()?.parse().ok()
}

/// Reads, prints and writes.
pub fn run(flags: &WhoFlags, pid: u32, by: By) -> Result<ExitCode> {
    refuse(flags, by)?;
    let read = reader::read(pid).map_err(|error| Error::Input(format!("who: {error}")))?;
    let reading = Reading::of(read);
    let path = reading.program();
    let name = Path::new(&path).file_name().map_or_else(|| path.clone(), |name| name.to_string_lossy().into_owned());
    let mut names = Names::of(&reading.stacks);
    let groups = reading.groups(&mut names, by, &folding(flags));
    let found = reading.sites(&name, by, &groups, names.notes());
    if let (Some(format), Some(file)) = (&flags.format, &flags.to) {
        let bytes = written(flags, format, &reading, &path, &mut names, &found.notes)?;
        private::replace(file, &bytes).map_err(|error| Error::file(file, "writing the stacks", error))?;
        terminal::tell(format_args!("{format}: {}", file.display()));
    }
    let (look, top) = (terminal::look(), flags.top.map(|top| top as usize));
    let brief = |answer| harmless_lines(&short(&[answer], &look)).into_owned();
    if let Some(old) = &flags.against {
        let wrong = |error| Error::Input(format!("--against {}: {error}", old.display()));
        let text = std::fs::read_to_string(old).map_err(|error| Error::file(old, "reading", error))?;
        let earlier = reports::Earlier::of(&text).map_err(wrong)?;
        let growths = reports::growths(&earlier, &found).map_err(wrong)?;
        let answer = reports::difference_answer(&earlier, &growths, &found);
        let text = match flags.output {
            OutputFlags { json: true, .. } => reports::difference_json(answer, &growths, &found, top),
            OutputFlags { short: true, .. } => brief(answer),
            _ => reports::difference(&answer, &growths, &found, top, &look),
        };
        return terminal::print(text.as_bytes());
    }
    let text = match flags.output {
        OutputFlags { json: true, .. } => reports::json(&found, top),
        OutputFlags { short: true, .. } => brief(reports::answer(&found)),
        _ => reports::text(&found, top, &look),
    };
    terminal::print(text.as_bytes())
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
            "{flag}: wanted a trace, found process {}: samples do not say that; record a trace with `allocanary record --stacks all`",
            harmless(&flags.trace.to_string_lossy())
        ))),
    }
}

/// The bytes of a file for another tool.
fn written(
    flags: &WhoFlags,
    format: &str,
    reading: &Reading,
    path: &str,
    names: &mut Names<'_>,
    notes: &[String],
) -> Result<Vec<u8>> {
    let wrong = |error: String| Error::Input(format!("--format {format}: {error}"));
    let of = reading.of_stacks();
    let order = if flags.sort.as_deref() == Some("allocated") { Order::Allocated } else { Order::Live };
    if format == "pprof" {
        let what = profile::Of::Samples(reading.mean());
        return profile::pprof(path, &reading.stacks, &of, names, what, notes)
            .map_err(|error| wrong(error.to_string()));
    }
    let lines = collapsed::collapsed(&of, names, order);
    match format {
        "collapsed" => Ok(lines.into_bytes()),
        _ if lines.is_empty() => Err(wrong("no sampled block is alive: ask for --sort allocated".into())),
        _ => collapsed::flamegraph(&format!("{path}, now"), &lines, order).map_err(wrong),
    }
}
