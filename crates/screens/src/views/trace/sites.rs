//! The sites whose blocks pin the pages: a section of a trace's page. In: the sites, pictures, callers. Out: a section.

use allocanary_text::units::Unit;
use allocanary_who::answer::sentence;
use allocanary_who::callers::Caller;
use allocanary_who::collapsed::what;
use allocanary_who::timeline::SiteSeries;
use allocanary_who::{AllocationSite, SiteOrder, SiteReport};
use maud::{Markup, html};

use super::flames::Flames;
use super::{bytes, drawn, percent, span, table};
use crate::draw::markup::prose;
use crate::draw::{Picture, palette};
use crate::views::who::growth::{a_minute, grown};
use crate::views::who::{begin, callers, remarks, without_callers, wrappers};

/// The number of sites in the table.
const TOP: usize = 10;

/// The sites of a trace with stacks, and pictures of them.
pub struct Sites {
    /// The sites.
    pub found: SiteReport,
    /// The order of the sites.
    pub order: SiteOrder,
    /// Flamegraphs, the most important first. One is missing if it has no bytes, or if it could not be drawn. A note of `found` says which.
    pub flames: Vec<(SiteOrder, Flames)>,
    /// The callers of the first sites.
    pub callers: Vec<Caller>,
    /// Live bytes over time, of the sites with the most live bytes.
    pub timeline: Vec<SiteSeries>,
}

/// The section.
pub fn section(sites: &Sites) -> Markup {
    let Sites { found, order, flames, callers, timeline } = sites;
    let others = found.sites.len().saturating_sub(TOP);
    let grown = grown(found);
    html! {
        section {
            h2 { "Whose blocks pin the pages" small { (found.moment.words) ", " (span(found.nanos)) " after the " (begin(found)) } }
            p.lead { (prose(&sentence(found, None))) @if let Some(grown) = &grown { " " (prose(grown)) } }
            (rows(found, *order))
            @if let Some(before) = found.before_window() {
                p.note { "Before the window: " (prose(&bytes(before))) " of resident pages in which no block of it was." }
            }
            @if others > 0 {
                p.note { "And " (others) " more: " (prose("`allocanary who`")) " shows them." }
            }
            @if let Some(said) = without_callers(&order.sorted(found)[..found.sites.len().min(TOP)]) { p.note { (said) } }
            @if let Some(said) = wrappers(found) { p.note { (prose(&said)) } }
            (over_time(timeline))
            @if !callers.is_empty() {
                h3 { "Who calls them" }
                @for tree in callers { (callers::markup(tree)) }
            }
            @for (at, (order, flames)) in flames.iter().enumerate() { (flamegraph(*order, flames, at == 0)) }
            @if !found.notes.is_empty() {
                div.remarks {
                    h3 { "What limits these figures" }
                    ul { @for note in &found.notes { li { (prose(note)) } } }
                }
            }
        }
    }
}

/// A flamegraph. Only the first one is open.
fn flamegraph(order: SiteOrder, flames: &Flames, is_open: bool) -> Markup {
    let mut name = what(order).to_string();
    name[..1].make_ascii_uppercase();
    html! {
        details open[is_open] {
            summary { b { (name) " bytes by stack" } }
            figure {
                (flames.frame())
                figcaption {
                    "The program's start is at the bottom. Select a frame to see it in whole width; Search colours the frames that match. \
                     Frames with less than "
                    (prose("0.1 %")) " are not drawn."
                }
            }
        }
    }
}

/// The sites with the most live bytes, with their numbers in the picture.
fn over_time(timeline: &[SiteSeries]) -> Markup {
    let points = |line: &SiteSeries| line.points.iter().map(|(nanos, bytes)| (*nanos as f64 / 1e3, *bytes)).collect();
    let lines: Vec<(usize, Vec<(f64, f64)>)> = timeline.iter().map(points).enumerate().collect();
    let picture = drawn(
        "Live bytes of the largest sites over time",
        Unit::Bytes,
        &lines,
        "At 48 even times: what comes and goes between two of them is not seen.",
    );
    html! {
        @if let Some(picture) = picture {
            ol.legend aria-label="Sites" {
                @for (at, line) in timeline.iter().enumerate() { li { (palette::swatch(at)) b { (at + 1) } " " code { (line.name) } } }
            }
            div.pictures { (Picture::figure(&picture)) }
        }
    }
}

fn rows(found: &SiteReport, order: SiteOrder) -> Markup {
    // In a window, blocks from before it may be in the same pages.
    let is_window = found.freed_from_before.is_some();
    let [pinned, alone] = if is_window { ["pinned, at most", "alone, at most"] } else { ["pinned", "alone"] };
    let part = match order {
        SiteOrder::Pinned => "part of what is pinned",
        SiteOrder::Allocated => "part of what was allocated",
        SiteOrder::Requested | SiteOrder::Grows => "part of what is requested",
    };
    let share = |site: &AllocationSite| match order {
        SiteOrder::Pinned => site.share.pinned,
        SiteOrder::Allocated => site.bytes,
        SiteOrder::Requested | SiteOrder::Grows => site.live,
    };
    let all: u64 = found.sites.iter().map(share).sum();
    let heads = ["site", pinned, alone, "requested", "allocated", "short", "a minute", "", part];
    let row = |site: &AllocationSite| {
        let cells = [
            site.name.clone(),
            bytes(site.share.pinned),
            if found.one_in.is_none() { bytes(site.share.alone) } else { "-".into() },
            bytes(site.live),
            bytes(site.bytes),
            format!("{:.0} %", percent(site.short, site.allocations)),
            site.slope.as_ref().map_or("-".into(), a_minute),
            remarks(site),
        ];
        (cells.to_vec(), percent(share(site), all))
    };
    table(&heads, order.sorted(found).into_iter().take(TOP).map(row))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::views::trace::page;
    use crate::views::who::tests::found;
    use allocanary_trace::builder::TraceBuilder;
    use allocanary_trace::coder::{AllocFunction, Event};
    use allocanary_trace::info::{Info, info};
    use allocanary_trace::reader::Trace;
    use allocanary_who::collapsed::flamegraph_of_page;
    use std::io::Write;

    fn told() -> Info {
        let mut builder = TraceBuilder::new(4096);
        builder.event(0, 1, Event::New { how: AllocFunction::Malloc, address: 4096, size: 64 });
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&builder.finish()).unwrap();
        info(&Trace::open(file.path()).unwrap()).unwrap()
    }

    #[test]
    fn a_trace_with_stacks_has_the_answer_its_sites_and_a_flamegraph() {
        let svg =
            flamegraph_of_page("main;dictAddRaw 25165824\nmain;_sdsnewlen 16777216\n", SiteOrder::Pinned).unwrap();
        let flames = || Flames::of(std::str::from_utf8(&svg).unwrap(), "pinned").unwrap();
        let line = SiteSeries { name: "dictAddRaw".into(), points: vec![(0, 0.0), (1_000_000, 4096.0)] };
        let caller = Caller { name: "dictAddRaw".into(), ..Caller::default() };
        let mut sites = Sites {
            found: found(),
            order: SiteOrder::Pinned,
            flames: vec![(SiteOrder::Pinned, flames()), (SiteOrder::Requested, flames())],
            callers: vec![caller],
            timeline: vec![line],
        };
        let html = page(&told(), Some(&sites));
        let hash = sites.flames[0].1.hash().to_string();
        for text in [
            "<h2>Whose blocks pin the pages<small>when idle, 12.3 s after the start</small></h2>",
            "are pinned by survivors of <code>dictAddRaw</code>.",
            "<code>dictAddRaw</code> grows by 1.20 MiB a minute [1.15, 1.26], from ready until the end of the load.</p>",
            "<th scope=\"row\">dictAddRaw</th><td>24.0 MiB</td><td>4.00 MiB</td><td>20.0 MiB</td><td>80.0 MiB</td><td>1 %</td>\
             <td>1.20 MiB</td><td>grows</td><td class=\"bar\"><i style=\"width:60.0%\">",
            "<li>/usr/bin/redis-server is not the file",
            "<details open><summary><b>Pinned bytes by stack</b>",
            "<details><summary><b>Requested bytes by stack</b>",
            "<h3>Live bytes of the largest sites over time</h3>",
            "<summary><code>dictAddRaw</code>",
            "<iframe class=\"flames\" title=\"Flamegraph of the pinned bytes",
            &format!("content=\"default-src 'none'; style-src 'unsafe-inline'; script-src '{hash}'\""),
        ] {
            assert!(html.contains(text), "{text}: {html}");
        }
        assert!(!html.contains("<script") && !html.contains("shows them"), "the script is in the frame: {html}");
        // Without any flamegraph, and with more sites than lines.
        sites.flames.clear();
        sites.found.sites = vec![AllocationSite::default(); 13];
        let html = page(&told(), Some(&sites));
        assert!(html.contains("And 3 more: <code>"), "{html}");
        assert!(html.contains("'unsafe-inline'\"") && !html.contains("<iframe"), "{html}");
    }

    #[test]
    fn of_a_window_pinned_is_at_most_and_what_is_older_is_said() {
        let words = ["12.3 s after the begin of the window</small>", "pinned, at most</th>", "alone, at most</th>"];
        let before = "Before the window: 3.00 MiB of resident pages";
        let none = |found| Sites {
            found,
            order: SiteOrder::Pinned,
            flames: Vec::new(),
            callers: Vec::new(),
            timeline: Vec::new(),
        };
        let html = page(&told(), Some(&none(SiteReport { freed_from_before: Some(7), ..found() })));
        words.iter().chain([&before]).for_each(|text| assert!(html.contains(text), "{text}: {html}"));
        let html = page(&told(), Some(&none(found())));
        words.iter().chain([&before]).for_each(|text| assert!(!html.contains(text), "{text}: {html}"));
    }
}
