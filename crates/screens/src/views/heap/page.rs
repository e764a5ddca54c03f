//! The page about a process's memory. In: its readings, the latest last. Out: HTML with pictures. The page fetches
//! nothing.

use std::time::Duration;

use maud::{Markup, html};

use super::deeper::deeper;
use super::map::{self, color};
use super::{bytes, histogram, percent, text};
use crate::draw::HtmlPage;
use crate::draw::class_of;
use crate::draw::markup::prose;
use crate::draw::{Picture, palette};
use crate::views::trace::drawn;
use allocanary_doctor::remedies::{Remedy, conclusion};
use allocanary_heap::{Heap, PARTS, Part, PartRow, Parts, Reading, answer, rows};
use allocanary_text::units::{Unit, show_time};

/// The style rules of this page, added to those of all pages.
const OWN: &str = include_str!("page.css");
/// The smallest share of a part, in percent, that has a label below the bar.
const LABELLED: f64 = 2.0;
/// The maximum of arenas in the table.
const ARENAS: usize = 20;
/// The lines of the picture over time.
const OVER_TIME: [Part; 5] = [Part::Live, Part::Cached, Part::Fragmentation, Part::FreePages, Part::LazyFree];

/// The page. `readings` are of one process, in the order of time. Without a reading the page is empty.
pub fn page(readings: &[Reading], remedies: &[Remedy]) -> String {
    let Some(reading) = readings.last() else { return String::new() };
    let name = reading.process.name.raw();
    let head = html! {
        section #answer {
            p.answer { (prose(&answer::answer(reading))) }
            (bar(reading))
            (what_to_do(reading, remedies))
        }
        (facts(reading))
    };
    let main = html! {
        section {
            h2 { "Where it is" }
            (parts(reading))
        }
        (over_time(readings))
        @for one in &reading.heaps { (heap(one)) }
        section {
            h2 { "What was checked, and how sure it is" }
            ul { @for one in text::checked(reading) { li { (prose(&one)) } } }
        }
    };
    let title = format!("The memory of {name}");
    let heading = format!("Where is the memory of {name}?");
    HtmlPage { title: &title, heading: &heading, style: OWN, head, main, foot: html! {} }.document()
}

fn facts(reading: &Reading) -> Markup {
    let process = &reading.process;
    html! {
        dl.facts {
            dt { "Process" } dd { (text::subject(reading).trim_start_matches("process ")) }
            dt { "Executable" } dd { code { (process.executable.raw()) } }
            dt { "Read" } dd { (show_time(Duration::from_millis(reading.taken))) " UTC" }
        }
    }
}

/// All memory as one bar.
fn bar(reading: &Reading) -> Markup {
    let mut left = 0.0;
    let parts = rows(reading).into_iter().map(|row| {
        let width = percent(row.resident, reading.resident);
        left += width;
        let told = format!("{}: {}", row.full_name(), bytes(row.resident));
        (class(reading, &row), format!("{:.3}", left - width), format!("{width:.3}"), told)
    });
    let several = reading.heaps.len() > 1;
    let labels = rows(reading).into_iter().filter(|row| percent(row.resident, reading.resident) >= LABELLED);
    html! {
        svg.whole viewBox="0 0 100 6" preserveAspectRatio="none" role="img"
            aria-label="The parts of the memory, as in the table" {
            @for (class, left, width, told) in parts {
                rect class=(class) x=(left) y="0" width=(width) height="6" { title { (told) } }
            }
        }
        p.labels {
            @for row in labels {
                span { (key(class(reading, &row))) " "
                    @if several { (row.full_name()) } @else { (row.name) } " " (bytes(row.resident)) }
                " "
            }
        }
    }
}

/// The class with the colour of a part. The colours of a second allocator are paler.
fn class(reading: &Reading, row: &PartRow) -> String {
    let first = reading.heaps.first().map(|heap| &heap.allocator);
    let is_second = row.allocator.as_ref().is_some_and(|allocator| Some(allocator) != first);
    class_of(row.part) + if is_second { " second" } else { "" }
}

/// The square of a colour, for a key.
fn key(class: String) -> Markup {
    html! { svg.key viewBox="0 0 12 12" aria-hidden="true" { rect class=(class) width="12" height="12" {} } }
}

fn parts(reading: &Reading) -> Markup {
    let several = reading.heaps.len() > 1;
    html! {
        div.scroll {
            table {
                thead { tr { th scope="col" { "part" } th scope="col" { "resident" } th scope="col" { "of all" } } }
                tbody {
                    @for row in rows(reading) {
                        tr {
                            th scope="row" {
                                (key(class(reading, &row))) " "
                                @if several { (row.full_name()) } @else { (row.name) }
                            }
                            td { (bytes(row.resident)) }
                            td { (prose(&format!("{:.1} %", percent(row.resident, reading.resident)))) }
                        }
                    }
                    tr { th scope="row" { b { "all that is resident" } } td { b { (bytes(reading.resident)) } } td {} }
                }
            }
        }
        @if reading.kernel.swapped > 0 {
            p.note { "In swap, and not resident: " (bytes(reading.kernel.swapped)) "." }
        }
    }
}

fn over_time(readings: &[Reading]) -> Markup {
    let [first, _, ..] = readings else { return html! {} };
    let line = |value: &dyn Fn(&Reading) -> u64| -> Vec<(f64, f64)> {
        let at = |reading: &Reading| reading.taken.saturating_sub(first.taken) as f64 * 1e3;
        readings.iter().map(|reading| (at(reading), value(reading) as f64)).collect()
    };
    let mut lines = vec![("resident", line(&|reading| reading.resident))];
    lines.extend(OVER_TIME.map(|part| (part.name(), line(&|reading| reading.parts().of(part)))));
    lines.retain(|(_, points)| points.iter().any(|(_, bytes)| *bytes > 0.0));
    let names: Vec<&str> = lines.iter().map(|(name, _)| *name).collect();
    let numbered: Vec<(usize, Vec<(f64, f64)>)> = lines.into_iter().map(|(_, points)| points).enumerate().collect();
    let caption = format!("{} readings of the process.", readings.len());
    let picture = drawn("Parts over time", Unit::Bytes, &numbered, &caption);
    html! {
        section {
            h2 { "Over time" }
            ol.legend aria-label="Lines" {
                @for (at, name) in names.iter().enumerate() { li { (palette::swatch(at)) b { (at + 1) } " " (name) } }
            }
            div.pictures { @if let Some(picture) = picture { (Picture::figure(&picture)) } }
        }
    }
}

fn heap(heap: &Heap) -> Markup {
    let pictures = [map::by_part(heap), map::by_arena(heap), histogram::live_in_a_page(heap)];
    let facts = format!(
        "{} resident; {} live blocks of {}.",
        bytes(heap.resident),
        Unit::Count.show(heap.blocks as f64),
        bytes(heap.live)
    );
    html! {
        section {
            h2 { "The heap of " (heap.allocator) " " (heap.version) }
            p { (prose(&facts)) }
            ul.legend aria-label="Parts" {
                @for part in PARTS.iter().filter(|part| heap.parts.of(**part) > 0) {
                    li { (key(class_of(*part))) " " (part.name()) }
                }
            }
            div.pictures { @for picture in pictures.iter().flatten() { (Picture::figure(picture)) } }
            (arenas(heap))
        }
    }
}

fn arenas(heap: &Heap) -> Markup {
    if heap.arenas.len() < 2 {
        return html! {};
    }
    let shown: Vec<Part> = PARTS.into_iter().filter(|part| heap.parts.of(*part) > 0).collect();
    let row = |name: &str, threads: Option<u64>, parts: &Parts| {
        html! {
            tr {
                th scope="row" {
                    @if let Some(color) = color(heap, name) {
                        svg.key viewBox="0 0 12 12" aria-hidden="true" {
                            rect style={ "fill:var(--candidate-" (color) ")" } width="12" height="12" {}
                        }
                    }
                    " " (name)
                }
                td { (threads.map_or_else(|| "-".into(), |count| count.to_string())) }
                td { (bytes(parts.sum())) }
                @for part in &shown { td { (bytes(parts.of(*part))) } }
            }
        }
    };
    let (first, others) = heap.arenas.split_at(heap.arenas.len().min(ARENAS));
    let mut sum = Parts::default();
    others.iter().for_each(|arena| sum += arena.parts);
    html! {
        div.scroll {
            table {
                thead {
                    tr {
                        th scope="col" { "arena" } th scope="col" { "threads" } th scope="col" { "resident" }
                        @for part in &shown { th scope="col" { (part.name()) } }
                    }
                }
                tbody {
                    @for arena in first { (row(&arena.name, arena.threads, &arena.parts)) }
                    @if !others.is_empty() {
                        (row(&format!("{} others", others.len()), others.iter().map(|arena| arena.threads).sum(), &sum))
                    }
                }
            }
        }
    }
}

fn what_to_do(reading: &Reading, remedies: &[Remedy]) -> Markup {
    let deeper = deeper(reading);
    html! {
        h3 { "What to do" }
        p { (prose(&conclusion(reading, remedies))) }
        ol.remedies {
            @for remedy in remedies {
                li {
                    b { (prose(&remedy.title())) }
                    pre { (remedy.first_lines().collect::<Vec<_>>().join("\n")) }
                    (prose(&remedy.details()))
                }
            }
        }
        @if !deeper.is_empty() {
            h3 { "What the parts mean" }
            ul.remedies {
                @for sentence in deeper { li { (prose(&sentence)) } }
            }
        }
    }
}
