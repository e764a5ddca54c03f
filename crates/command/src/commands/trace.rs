//! `allocanary trace`: prints a trace without a replay. In: a trace. Out: a summary, a check, a page with pictures, or
//! all of it as CSV or JSON.

mod sites;

use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use super::terminal;
use crate::args::TraceFlags;
use allocanary_rows::error::{Error, Result};
use allocanary_screens::views::trace::page as page_of;
use allocanary_sys::private;
use allocanary_text::outside::harmless_lines;
use allocanary_text::units::{Unit, show_duration};
use allocanary_trace::info::{Info, info};
use allocanary_trace::reader::Trace;

/// Reads the trace and prints what the flags request.
pub fn run(flags: &TraceFlags) -> Result<ExitCode> {
    if flags.format.is_some() && flags.what != "export" {
        let asked = &flags.what;
        return Err(Error::Input(format!("--format: is for `trace export`: leave it out of `trace {asked}`")));
    }
    let trace = Trace::open(&flags.file)?;
    let info = info(&trace)?;
    match flags.what.as_str() {
        "check" => {
            let problems = problems(&info);
            terminal::print_plain(&problems.concat())?;
            let sound = info.merged.damage.is_empty();
            terminal::print(if sound { "the trace is sound\n" } else { "the trace is damaged\n" }.as_bytes())?;
            Ok(if sound { ExitCode::SUCCESS } else { ExitCode::from(1) })
        }
        "export" if flags.format.as_deref() == Some("json") => terminal::print(json(&info)?.as_bytes()),
        "export" => terminal::print(curve(&info).as_bytes()),
        _ => terminal::print_plain(&page(&info)),
    }
}

/// `allocanary report TRACE`: a summary, a page, or all figures.
pub fn report(format: &str, to: Option<&Path>, path: &Path) -> Result<ExitCode> {
    let trace = Trace::open(path)?;
    let info = info(&trace)?;
    let text = match format {
        "table" => harmless_lines(&page(&info)).into_owned(),
        "csv" => curve(&info),
        "json" => json(&info)?,
        "html" => {
            // The rest of the page does not need the sites.
            let sites = sites::of(&trace).unwrap_or_else(|error| {
                terminal::tell(format_args!("the page has no sites: {error}"));
                None
            });
            page_of(&info, sites.as_ref())
        }
        other => {
            let text = format!("--format: of a trace wanted table, html, csv or json; found `{other}`");
            return Err(Error::Input(text));
        }
    };
    let beside = || (format == "html").then(|| path.with_extension("html"));
    match to.map(Path::to_path_buf).or_else(beside) {
        None => terminal::print_plain(&text),
        Some(file) => {
            private::replace(&file, text.as_bytes())
                .map_err(|error| Error::file(&file, "writing the report", error))?;
            terminal::tell(format_args!("report: {}", file.display()));
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn json(info: &Info) -> Result<String> {
    let document = allocanary_screens::views::trace::json(info);
    serde_json::to_string_pretty(&document).map(|text| text + "\n").map_err(|error| Error::Input(error.to_string()))
}

fn bytes(number: u64) -> String {
    Unit::Bytes.show(number as f64)
}

fn span(nanos: u64) -> String {
    show_duration(Duration::from_nanos(nanos))
}

/// Requested and anonymous bytes over time as CSV.
fn curve(info: &Info) -> String {
    let mut out = String::from("seconds,requested_bytes,anonymous_bytes,events\n");
    for point in &info.curve {
        let seconds = point.nanos as f64 / 1e9;
        let _ = writeln!(out, "{seconds:.6},{},{},{}", point.live, point.resident, point.events);
    }
    out
}

/// What is damaged or missing, a line each.
fn problems(info: &Info) -> Vec<String> {
    let merged = &info.merged;
    let mut lines: Vec<String> =
        merged.damage.iter().map(|damage| format!("damaged: {damage}; read up to there\n")).collect();
    let counted = [
        (merged.strays, "frees of blocks that are not in the trace"),
        (merged.lost_frees, "blocks whose free is not in the trace"),
        (
            info.header.lost.saturating_sub(info.header.no_chunk),
            "calls not recorded: signal handlers that interrupted the recorder",
        ),
        (
            info.header.no_chunk,
            "calls not recorded: no chunk was free for their thread: allow 32 KiB for each thread with --max-size",
        ),
    ];
    lines.extend(counted.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}\n")));
    lines
}

/// Adds the figures of the stacks.
fn stacks(info: &Info, out: &mut String) {
    let header = &info.header;
    let Some(found) = &info.stacks else {
        if header.no_stacks {
            let _ = writeln!(
                out,
                "stacks      none: they need x86-64 or aarch64, and a C library with _dl_find_object (glibc 2.35 or later)"
            );
        }
        return;
    };
    let each = found.bytes as f64 / (info.allocations + info.resizes).max(1) as f64;
    let of = if header.stacks > 1 { format!(" (one allocation in {})", header.stacks) } else { String::new() };
    let _ = writeln!(
        out,
        "stacks      {} different of {} allocations{of}, {} frames in {} modules; {}, {each:.2} bytes an allocation",
        found.different,
        found.allocations,
        found.nodes,
        found.modules,
        bytes(found.bytes)
    );
    let short = [
        (header.cut, "deeper than 256 frames: the outermost are missing"),
        (header.broken, "end in code without tables"),
        (header.no_room, "are missing: there was no room for them"),
    ];
    for (count, what) in short.into_iter().filter(|(count, _)| *count > 0) {
        let _ = writeln!(out, "            {count} {what}");
    }
}

/// The summary.
fn page(info: &Info) -> String {
    let mut out = String::new();
    let header = &info.header;
    let per_event = info.packed_bytes.unwrap_or(info.bytes) as f64 / info.merged.events.max(1) as f64;
    let packed =
        info.packed_bytes.map(|_| format!(" ({} before it was packed)", bytes(info.bytes))).unwrap_or_default();
    let _ = writeln!(out, "program     {}\ncommand     {}", header.program, header.command);
    let _ = writeln!(out, "process     {} on {}", header.pid, header.host.trim());
    let _ = writeln!(out, "end         {}", header.state.words());
    let _ = writeln!(
        out,
        "events      {} in {}, {} in the file{packed}, {per_event:.2} bytes each",
        info.merged.events,
        span(info.merged.nanos),
        bytes(info.packed_bytes.unwrap_or(info.bytes))
    );
    let _ = writeln!(
        out,
        "calls       {} allocations ({} by calloc, {} aligned), {} frees, {} reallocs",
        info.allocations, info.callocs, info.aligned, info.frees, info.resizes
    );
    if header.window > 0 {
        let _ = writeln!(
            out,
            "window      the last {}; {} frees of blocks from before are left out",
            span(header.window),
            info.merged.before
        );
    }
    if header.attached {
        let before = info.merged.before;
        let _ = writeln!(out, "attached    to a running process; {before} frees of blocks from before are left out");
    }
    let _ = writeln!(out, "threads     {}, up to {} at one time", info.threads.len(), info.most_threads);
    let ends = info.frees + info.resizes;
    let crossing = 100.0 * info.crossing as f64 / ends.max(1) as f64;
    let _ = writeln!(out, "cross       {} frees and reallocs by another thread ({crossing:.1} %)", info.crossing);
    let _ = writeln!(
        out,
        "live        {} at the peak ({} after the start), {} at the end",
        bytes(info.peak_live),
        span(info.peak_nanos),
        bytes(info.end_live)
    );
    let marks = &header.marks;
    let marks = [("ready", marks.ready), ("end of the load", marks.peak), ("idle", marks.idle), ("end", header.end)];
    let set: Vec<String> = marks.iter().filter_map(|(name, at)| Some(format!("{name} {}", span((*at)?)))).collect();
    if !set.is_empty() {
        let _ = writeln!(out, "marks       {}", set.join(", "));
    }
    if info.most_resident > 0 {
        let share = 100.0 * info.peak_live as f64 / info.most_resident as f64;
        let _ = writeln!(
            out,
            "coverage    {share:.0} % of the highest RssAnon, {}: the rest is the allocator's, stacks, and what the program maps",
            bytes(info.most_resident)
        );
    }
    if header.rate > 1 {
        let _ = writeln!(out, "rate        one block in {}: multiply bytes and counts by that", header.rate);
    }
    stacks(info, &mut out);
    let _ = writeln!(out, "\nsize up to      allocations        bytes      at peak       at end");
    for class in &info.classes {
        let _ = writeln!(
            out,
            "{:<12}{:>15}{:>13}{:>13}{:>13}{}",
            bytes(class.up_to),
            class.allocations,
            bytes(class.bytes),
            bytes(class.at_peak),
            bytes(class.at_end),
            if class.grows { "  grows" } else { "" }
        );
    }
    let _ = writeln!(out, "\nlifetime          blocks");
    for (name, count) in info.lifetimes.iter().filter(|(_, count)| *count > 0) {
        let _ = writeln!(out, "{name:<16}{count:>8}");
    }
    let _ = writeln!(out, "\nthread     events       from         to");
    let mut threads = info.threads.clone();
    threads.sort_by_key(|thread| std::cmp::Reverse(thread.events));
    for thread in threads.iter().take(10) {
        let ended = if thread.ended { "  ended" } else { "" };
        let (from, to) = (span(thread.first_nanos), span(thread.last_nanos));
        let _ = writeln!(out, "{:<6}{:>11}{from:>11}{to:>11}{ended}", thread.thread, thread.events);
    }
    if threads.len() > 10 {
        let _ = writeln!(out, "and {} more", threads.len() - 10);
    }
    let problems = problems(info);
    if !problems.is_empty() {
        let _ = write!(out, "\n{}", problems.concat());
    }
    out
}
