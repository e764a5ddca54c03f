//! A page about one recorded trace. In: the facts about a trace. Out: HTML with pictures. The page fetches nothing.

mod flames;
mod json;
mod sites;

use std::time::Duration;

use maud::{Markup, html};

use crate::draw::HtmlPage;
use crate::draw::Picture;
use crate::draw::canvas::{Canvas, Side, spread};
use crate::draw::markup::prose;
use crate::draw::palette;
use crate::draw::scale::AxisScale;
use allocanary_text::units::{Unit, show_duration};
use allocanary_trace::info::{CurvePoint, Info};

pub use json::json;

/// The number of size classes in the picture of live bytes by size.
const SHOWN_CLASSES: usize = 5;
/// The maximum of steps in which calls per second are counted.
const RATE_STEPS: u64 = 100;
/// The maximum of threads in the table.
const SHOWN_THREADS: usize = 20;
/// Styles for a bar in a table, whose length is a share, and for the frame of a flamegraph.
const STYLE: &str = "td.bar { width: 30%; min-width: 90px; } td.bar i { display: block; height: 0.8em; margin-top: 0.35em; \
                     background: var(--candidate-0); border-radius: 2px; } td.bar, th.bar { text-align: left; }\n\
                     iframe.flames { display: block; width: 100%; border: 0; }\n\
                     details.callers ul { padding-left: 1.2em; } details > summary { cursor: pointer; }\n";

pub use flames::Flames;
pub use sites::Sites;

/// The page. For a trace with stacks it includes the sites.
pub fn page(info: &Info, sites: Option<&Sites>) -> String {
    let name = name(&info.header.command);
    let head = html! {
        section #answer {
            p.answer { (prose(&peak(info))) " " (prose(&growth(info))) }
        }
        (facts(info))
    };
    let main = html! {
        (troubles(info))
        section {
            h2 { "Live bytes" }
            (legend(&shown_classes(info)))
            (pictures(info))
        }
        @if let Some(sites) = sites { (sites::section(sites)) }
        section { h2 { "Sizes" } (sizes(info)) }
        section { h2 { "Lifetimes" } (lifetimes(info)) }
        section { h2 { "Threads" } p.lead { (prose(&crossing(info))) } (threads(info)) }
    };
    let title = format!("What {name} allocates");
    let heading = format!("What does {name} allocate?");
    let page = HtmlPage { title: &title, heading: &heading, style: STYLE, head, main, foot: html! {} };
    let flames = sites.iter().flat_map(|sites| &sites.flames);
    let mut hashes: Vec<&str> = flames.map(|(_, flames)| flames.hash()).collect();
    // All flamegraphs have the same script.
    hashes.dedup();
    page.with_scripts(&hashes)
}

/// The program's name in a command line. Its file may have another name, if the command is a link to it.
fn name(command: &str) -> &str {
    let path = command.split(' ').next().unwrap_or_default();
    path.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or("the program")
}

fn bytes(number: u64) -> String {
    Unit::Bytes.show(number as f64)
}

fn span(nanos: u64) -> String {
    show_duration(Duration::from_nanos(nanos))
}

/// A part of a whole in percent.
fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

fn facts(info: &Info) -> Markup {
    let header = &info.header;
    let ends = info.frees + info.resizes;
    let marks = [("ready", header.marks.ready), ("end of the load", header.marks.peak), ("idle", header.marks.idle)];
    let set: Vec<String> = marks.iter().filter_map(|(name, at)| Some(format!("{name} {}", span((*at)?)))).collect();
    html! {
        dl.facts {
            dt { "Command" } dd { code { (header.command) } }
            dt { "Process" } dd { (header.pid) " on " (header.host.trim()) }
            dt { "Trace" } dd { (span(info.merged.nanos)) ", " (bytes(info.packed_bytes.unwrap_or(info.bytes))) "; " (header.state.words()) }
            dt { "Calls" } dd {
                (info.allocations) " allocations of " (bytes(info.requested)) ", " (ends) " frees and reallocs"
            }
            @if !set.is_empty() { dt { "Marks" } dd { (set.join(", ")) } }
            @if header.window > 0 {
                dt { "Window" } dd { "the last " (span(header.window)) ": blocks from before are not shown" }
            }
            @if header.attached {
                dt { "Attached" } dd { "to a running process: blocks from before are not shown" }
            }
            @if header.rate > 1 {
                dt { "Rate" } dd { "one block in " (header.rate) ": multiply bytes and counts by that" }
            }
        }
    }
}

fn troubles(info: &Info) -> Markup {
    let mut lines = info.merged.damage.clone();
    let counted = [
        (info.merged.strays, "frees of blocks that are not in the trace"),
        (info.merged.lost_frees, "blocks whose free is not in the trace"),
        (info.header.lost, "calls that were not recorded"),
    ];
    lines.extend(counted.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")));
    html! {
        @if !lines.is_empty() {
            section.troubles { h2 { "What is missing" } ul { @for line in &lines { li { (line) } } } }
        }
    }
}

fn peak(info: &Info) -> String {
    let mut text = format!(
        "At most {} are live, {} after the start; at the end {}.",
        bytes(info.peak_live),
        span(info.peak_nanos),
        bytes(info.end_live)
    );
    if info.most_resident > 0 {
        text.push_str(&format!(
            " That peak is {:.0} % of the highest RssAnon, {}: the rest is the allocator's, stacks, and what the program maps.",
            percent(info.peak_live, info.most_resident),
            bytes(info.most_resident)
        ));
    }
    text
}

/// The classes whose live bytes only rose.
fn growth(info: &Info) -> String {
    let growing = info.classes.iter().filter(|class| class.grows);
    let growing: Vec<String> =
        growing.map(|class| format!("{} ({} at the end)", up_to(class.up_to), bytes(class.at_end))).collect();
    match growing.is_empty() {
        true => "No class of sizes grows through the whole trace.".into(),
        false => format!(
            "These sizes grow from each quarter of the trace to the next, by a twentieth or more: {}. That is a leak, or a cache \
             that is not full yet.",
            growing.join(", ")
        ),
    }
}

fn up_to(size: u64) -> String {
    format!("{} to {}", bytes(size / 2 + 1), bytes(size))
}

/// The classes with the most bytes at the peak, each with its position among the powers of two.
fn shown_classes(info: &Info) -> Vec<(usize, String)> {
    let mut classes: Vec<_> = info.classes.iter().filter(|class| class.at_peak.max(class.at_end) > 0).collect();
    classes.sort_by_key(|class| std::cmp::Reverse(class.at_peak.max(class.at_end)));
    classes.truncate(SHOWN_CLASSES);
    classes.iter().map(|class| (class.up_to.trailing_zeros() as usize, up_to(class.up_to))).collect()
}

/// The lines of the pictures: live bytes and resident memory, then the classes.
fn legend(classes: &[(usize, String)]) -> Markup {
    let names = ["live bytes", "RssAnon"].into_iter().chain(classes.iter().map(|(_, name)| name.as_str()));
    html! {
        ol.legend aria-label="Lines" {
            @for (at, name) in names.enumerate() { li { (palette::swatch(at)) b { (at + 1) } " " (name) } }
        }
    }
}

fn pictures(info: &Info) -> Markup {
    let classes = shown_classes(info);
    let over = |value: &dyn Fn(&CurvePoint) -> f64| -> Vec<(f64, f64)> {
        info.curve.iter().map(|point| (point.nanos as f64 / 1e3, value(point))).collect()
    };
    let mut memory = vec![(0, over(&|point| point.live as f64))];
    if info.most_resident > 0 {
        memory.push((1, over(&|point| point.resident as f64)));
    }
    let by_size: Vec<_> = classes
        .iter()
        .enumerate()
        .map(|(at, (class, _))| (at + 2, over(&|point| point.class(*class) as f64)))
        .collect();
    let all = [
        drawn("Live bytes and resident memory over time", Unit::Bytes, &memory, "RssAnon is read ten times a second."),
        drawn(
            "Live bytes by size over time",
            Unit::Bytes,
            &by_size,
            "The sizes with the most live bytes at the peak or the end.",
        ),
        drawn("Calls per second over time", Unit::PerSecond, &[(0, rate(info))], "All threads together."),
    ];
    html! { div.pictures { @for picture in all.iter().flatten() { (Picture::figure(picture)) } } }
}

/// Calls per second over time. Short steps are joined: otherwise a single call just before the end would count as
/// millions a second.
fn rate(info: &Info) -> Vec<(f64, f64)> {
    let least = info.merged.nanos / RATE_STEPS + 1;
    let mut rates = Vec::new();
    let mut begun = info.curve.first().map_or((0, 0), |point| (point.nanos, point.events));
    for point in &info.curve {
        let passed = point.nanos.saturating_sub(begun.0);
        if passed >= least {
            let calls = point.events.saturating_sub(begun.1);
            rates.push((point.nanos as f64 / 1e3, calls as f64 * 1e9 / passed as f64));
            begun = (point.nanos, point.events);
        }
    }
    rates
}

/// Lines over time, each with its number in the legend; `None` without a point.
pub(crate) fn drawn(title: &str, unit: Unit, lines: &[(usize, Vec<(f64, f64)>)], caption: &str) -> Option<Picture> {
    let points = || lines.iter().flat_map(|(_, line)| line.iter());
    points().next()?;
    let time = AxisScale::linear(Unit::Microseconds, points().map(|(time, _)| *time));
    let value = AxisScale::linear(unit, points().map(|(_, value)| *value));
    let drawing = Canvas::paint(title, |canvas| {
        canvas.level(&time, "time since the start");
        canvas.upright(&value);
        let mut ends = Vec::new();
        for (number, line) in lines {
            let places: Vec<(f64, f64)> =
                line.iter().map(|(at, height)| Canvas::place(time.share(*at), value.share(*height))).collect();
            canvas.line(&places, palette::color(*number), 2.0);
            ends.extend(places.last().map(|place| (*number, *place)));
        }
        let heights = spread(&ends.iter().map(|(_, place)| place.1).collect::<Vec<_>>(), 16.0);
        let right = Canvas::place(1.0, 0.0).0;
        for ((number, place), height) in ends.iter().zip(heights) {
            canvas.line(&[*place, (right + 6.0, height)], palette::color(*number), 0.5);
            canvas.word(&(number + 1).to_string(), (right + 10.0, height), Side::Left, palette::INK);
        }
    });
    Some(Picture { title: title.into(), drawing, caption: caption.into(), is_numbered: true })
}

/// A table: its heads, and its rows. Each row has a share in percent, which is drawn as a bar at the end.
fn table(heads: &[&str], rows: impl Iterator<Item = (Vec<String>, f64)>) -> Markup {
    let (last, others) = heads.split_last().expect("a table has columns");
    let row = |(cells, share): (Vec<String>, f64)| {
        let (first, others) = cells.split_first().expect("a row has cells");
        html! {
            tr {
                th scope="row" { (first) }
                @for cell in others { td { (cell) } }
                td.bar { i style={ "width:" (format!("{share:.1}")) "%" } {} }
            }
        }
    };
    html! {
        div.scroll {
            table {
                thead { tr { @for head in others { th scope="col" { (head) } } th.bar scope="col" { (last) } } }
                tbody { @for one in rows { (row(one)) } }
            }
        }
    }
}

fn sizes(info: &Info) -> Markup {
    let heads = ["size", "allocations", "bytes in all", "live at the peak", "live at the end", "", "part of the peak"];
    let rows = info.classes.iter().map(|class| {
        let grows = if class.grows { "grows" } else { "" };
        let cells = [
            up_to(class.up_to),
            class.allocations.to_string(),
            bytes(class.bytes),
            bytes(class.at_peak),
            bytes(class.at_end),
            grows.to_string(),
        ];
        (cells.to_vec(), percent(class.at_peak, info.peak_live))
    });
    table(&heads, rows)
}

fn lifetimes(info: &Info) -> Markup {
    let all: u64 = info.lifetimes.iter().map(|(_, count)| count).sum();
    let rows = info.lifetimes.iter().map(|(name, count)| {
        let name = if name.starts_with(|c: char| c.is_ascii_digit()) { format!("up to {name}") } else { name.clone() };
        let share = percent(*count, all);
        (vec![name, count.to_string(), format!("{share:.1} %")], share)
    });
    table(&["lifetime", "blocks", "", "part of all"], rows)
}

fn crossing(info: &Info) -> String {
    format!(
        "{} threads, up to {} at one time. Of the frees and reallocs {:.1} % are by another thread than the one that allocated.",
        info.threads.len(),
        info.most_threads,
        percent(info.crossing, info.frees + info.resizes)
    )
}

fn threads(info: &Info) -> Markup {
    let mut threads = info.threads.clone();
    threads.sort_by_key(|thread| std::cmp::Reverse(thread.events));
    let more = threads.len().saturating_sub(SHOWN_THREADS);
    let most = threads.first().map_or(0, |thread| thread.events);
    let rows = threads.iter().take(SHOWN_THREADS).map(|thread| {
        let lived = thread.last_nanos.saturating_sub(thread.first_nanos);
        let rate = thread.events as f64 / (lived.max(1) as f64 / 1e9);
        let cells = [
            thread.thread.to_string(),
            thread.events.to_string(),
            // A thread with only one call has no rate.
            if lived > 0 { Unit::PerSecond.show(rate) } else { "-".into() },
            span(thread.first_nanos),
            if thread.ended { span(thread.last_nanos) } else { "-".into() },
        ];
        (cells.to_vec(), percent(thread.events, most))
    });
    let table = table(&["thread", "calls", "rate", "first call", "ended", "calls"], rows);
    html! { (table) @if more > 0 { p.note { "and " (more) " more" } } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use allocanary_trace::builder::TraceBuilder;
    use allocanary_trace::coder::{AllocFunction, Event};
    use allocanary_trace::info::info;
    use allocanary_trace::reader::Trace;

    /// 1000 bytes that stay, 4000 times, and 100 that another thread frees.
    fn growing() -> Info {
        let mut sample = TraceBuilder::new(4096);
        for at in 0..4000_u64 {
            let address = 0x10_0000 + at * 2048;
            sample.event(0, at * 1000, Event::New { how: AllocFunction::Malloc, address, size: 1000 });
            sample.event(
                0,
                at * 1000 + 10,
                Event::New { how: AllocFunction::Malloc, address: address + 1024, size: 100 },
            );
            sample.event(1, at * 1000 + 200, Event::Free { address: address + 1024 });
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.trace");
        std::fs::write(&path, sample.finish()).unwrap();
        info(&Trace::open(&path).unwrap()).unwrap()
    }

    #[test]
    fn each_number_of_the_document_has_a_unit_or_counts_something() {
        const COUNTS: &[&str] = &[
            "events",
            "allocations",
            "callocs",
            "aligned_allocations",
            "frees",
            "reallocations",
            "crossing_frees",
            "frees_without_allocation",
            "frees_from_before",
            "allocations_without_free",
            "end_blocks",
            "blocks",
            "peak_threads",
            "thread",
            "pid",
            "parent_pid",
            "one_block_in",
            "one_stack_in",
            "lost_calls",
            "lost_calls_without_chunk",
            "different",
            "nodes",
            "modules",
            "cut_stacks",
            "broken_stacks",
            "stacks_without_room",
        ];
        let mut info = growing();
        info.stacks = Some(allocanary_trace::info::StackFigures::default());
        info.header.marks = allocanary_trace::format::Marks { ready: Some(1), peak: Some(2), idle: Some(3) };
        (info.header.window, info.header.end) = (1, Some(1));
        let document = json(&info);
        fn numbers(value: &serde_json::Value, found: &mut Vec<String>) {
            match value {
                serde_json::Value::Object(all) => all.iter().for_each(|(key, value)| {
                    found.extend(value.is_number().then(|| key.clone()));
                    numbers(value, found);
                }),
                serde_json::Value::Array(all) => all.iter().for_each(|value| numbers(value, found)),
                _ => {}
            }
        }
        let mut found = Vec::new();
        numbers(&document, &mut found);
        found.retain(|key| !key.ends_with("_bytes") && !key.ends_with("_seconds") && !COUNTS.contains(&key.as_str()));
        assert!(found.is_empty(), "{found:?}");
        assert_eq!(document["allocated_total_bytes"], 4000 * (1000 + 100));
        assert_eq!(document["end_requested_bytes"], 4000 * 1000);
        assert_eq!(document["classes"][1]["largest_block_bytes"], 1024);
    }

    #[test]
    fn a_page_shows_what_the_trace_tells() {
        let mut found = growing();
        found.header.command = "/bin/server <b>".into();
        let html = page(&found, None);
        for text in [
            "<title>What server allocates - allocanary</title>",
            "<h1>What does server allocate?</h1>",
            "/bin/server &lt;b&gt;",
            "8000 allocations of 4.20 MiB, 4000 frees",
            "These sizes grow",
            "513 B to 1.00 KiB (3.81 MiB at the end)",
            "Of the frees and reallocs 100.0&nbsp;% are by another thread",
            "<td>4000</td><td>50.0 %</td>",
            "Live bytes by size over time",
        ] {
            assert!(html.contains(text), "{text}: {html}");
        }
        assert_eq!(html.matches("<svg viewBox").count(), 3);
        assert!(!html.contains("What is missing"));
        let policy = "content=\"default-src 'none'; style-src 'unsafe-inline'\"";
        assert!(html.contains(policy) && !html.contains("iframe class") && !html.contains("pin the pages"), "{html}");
        found.merged.strays = 5;
        assert!(page(&found, None).contains("5 frees of blocks that are not in the trace"));
    }
}
