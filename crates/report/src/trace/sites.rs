//! Whose blocks pin the pages, within the page of a trace. In: the sites, a flamegraph. Out: a section.

use allocanary_who::answer::sentence;
use allocanary_who::{Found, Site};
use maud::{Markup, html};

use super::flames::Flames;
use super::{bytes, percent, span, table};
use crate::markup::prose;
use crate::who::begin;
use crate::who::growth::{a_minute, grown};

/// The sites of the table.
const TOP: usize = 10;

/// What is known of a trace with stacks.
pub struct Sites {
    /// The sites.
    pub found: Found,
    /// What each stack pins; none if nothing is pinned, or if it could not be drawn: a note of `found` says so.
    pub flames: Option<Flames>,
}

/// The section.
pub fn section(sites: &Sites) -> Markup {
    let Sites { found, flames } = sites;
    let others = found.sites.len().saturating_sub(TOP);
    let grown = grown(found);
    html! {
        section {
            h2 { "Whose blocks pin the pages" small { (found.moment.words) ", " (span(found.nanos)) " after the " (begin(found)) } }
            p.lead { (prose(&sentence(found, None))) @if let Some(grown) = &grown { " " (prose(grown)) } }
            (rows(found))
            @if let Some(before) = found.before_window() {
                p.note { "Before the window: " (prose(&bytes(before))) " of resident pages in which no block of it was." }
            }
            @if others > 0 {
                p.note { "And " (others) " more: " (prose("`allocanary who`")) " shows them." }
            }
            @if let Some(flames) = flames {
                figure {
                    h3 { "Pinned bytes by stack" }
                    (flames.frame())
                    figcaption {
                        "The program's start is at the bottom. Select a frame to see it in whole width; Search colours the frames that \
                         match. Frames with less than "
                        (prose("0.1 %")) " are not drawn."
                    }
                }
            } @else if found.pages.pinned() == 0 {
                p.note { "No block pins a page: there is no flamegraph." }
            }
            @if !found.notes.is_empty() {
                div.remarks {
                    h3 { "What limits these figures" }
                    ul { @for note in &found.notes { li { (prose(note)) } } }
                }
            }
        }
    }
}

fn rows(found: &Found) -> Markup {
    // Blocks from before a window may lie in the same pages.
    let is_window = found.freed_from_before.is_some();
    let [pinned, alone] = if is_window { ["pinned, at most", "alone, at most"] } else { ["pinned", "alone"] };
    let heads = ["site", pinned, alone, "live", "allocated", "short", "a minute", "", "part of what is pinned"];
    let all = found.pages.pinned();
    let row = |site: &Site| {
        let cells = [
            site.name.clone(),
            bytes(site.share.pinned),
            if found.one_in.is_none() { bytes(site.share.alone) } else { "-".into() },
            bytes(site.live),
            bytes(site.bytes),
            format!("{:.0} %", percent(site.short, site.allocations)),
            site.slope.as_ref().map_or("-".into(), a_minute),
            if site.grows { "grows".into() } else { String::new() },
        ];
        (cells.to_vec(), percent(site.share.pinned, all))
    };
    let shown = found.sites.iter().take(TOP);
    table(&heads, shown.map(row))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::page;
    use crate::who::tests::found;
    use allocanary_trace::builder::TraceBuilder;
    use allocanary_trace::coder::{Event, How};
    use allocanary_trace::info::{Info, info};
    use allocanary_trace::reader::Trace;
    use allocanary_who::collapsed::flamegraph_of_page;
    use allocanary_who::pages::Divided;
    use std::io::Write;

    fn told() -> Info {
        let mut builder = TraceBuilder::new(4096);
        builder.event(0, 1, Event::New { how: How::Malloc, address: 4096, size: 64 });
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&builder.finish()).unwrap();
        info(&Trace::open(file.path()).unwrap()).unwrap()
    }

    #[test]
    fn a_trace_with_stacks_has_the_answer_its_sites_and_a_flamegraph() {
        let svg = flamegraph_of_page("main;dictAddRaw 25165824\nmain;_sdsnewlen 16777216\n").unwrap();
        let mut sites = Sites { found: found(), flames: Flames::of(std::str::from_utf8(&svg).unwrap()) };
        let html = page(&told(), Some(&sites));
        let hash = sites.flames.as_ref().unwrap().hash().to_string();
        for text in [
            "<h2>Whose blocks pin the pages<small>when idle, 12.3 s after the start</small></h2>",
            "are pinned by survivors of <code>dictAddRaw</code>.",
            "<code>dictAddRaw</code> grows by 1.20 MiB a minute [1.15, 1.26], from ready until the end of the load.</p>",
            "<th scope=\"row\">dictAddRaw</th><td>24.0 MiB</td><td>4.00 MiB</td><td>20.0 MiB</td><td>80.0 MiB</td><td>1 %</td>\
             <td>1.20 MiB</td><td>grows</td><td class=\"bar\"><i style=\"width:60.0%\">",
            "<li>/usr/bin/redis-server is not the file",
            "<iframe class=\"flames\" title=\"Flamegraph",
            &format!("content=\"default-src 'none'; style-src 'unsafe-inline'; script-src '{hash}'\""),
        ] {
            assert!(html.contains(text), "{text}: {html}");
        }
        assert!(!html.contains("<script") && !html.contains("shows them"), "the script is in the frame: {html}");
        // It could not be drawn.
        sites.flames = None;
        assert!(!page(&told(), Some(&sites)).contains("No block pins a page"));
        // Nothing is pinned; more sites than there are lines.
        sites.found.pages = Divided::default();
        sites.found.sites = vec![Site::default(); 13];
        let html = page(&told(), Some(&sites));
        assert!(html.contains("there is no flamegraph") && html.contains("And 3 more: <code>"), "{html}");
        assert!(html.contains("'unsafe-inline'\"") && !html.contains("<iframe"), "{html}");
    }

    #[test]
    fn of_a_window_pinned_is_at_most_and_what_is_older_is_said() {
        let words = ["12.3 s after the begin of the window</small>", "pinned, at most</th>", "alone, at most</th>"];
        let before = "Before the window: 3.00 MiB of resident pages";
        let window = Sites { found: Found { freed_from_before: Some(7), ..found() }, flames: None };
        let html = page(&told(), Some(&window));
        words.iter().chain([&before]).for_each(|text| assert!(html.contains(text), "{text}: {html}"));
        let html = page(&told(), Some(&Sites { found: found(), flames: None }));
        words.iter().chain([&before]).for_each(|text| assert!(!html.contains(text), "{text}: {html}"));
    }
}
