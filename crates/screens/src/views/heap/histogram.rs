//! How many live bytes the pages contain. In: a heap. Out: a picture.

use maud::{Markup, html};

use super::map::tenth;
use super::{bytes, percent};
use crate::draw::{Picture, class_of};
use allocanary_heap::{Heap, Part};

const SIZE: (f64, f64) = (560.0, 250.0);
/// The field of the bars: left, top, right, bottom.
const FIELD: (f64, f64, f64, f64) = (8.0, 24.0, 552.0, 206.0);

/// A bar for each sixteenth of a page.
pub fn live_in_a_page(heap: &Heap) -> Option<Picture> {
    let counts = &heap.live_in_a_page;
    let most = counts.iter().copied().max().filter(|most| *most > 0)?;
    let all: u64 = counts.iter().sum();
    let step = (FIELD.2 - FIELD.0) / counts.len() as f64;
    let bar = |(at, count): (usize, &u64)| {
        let height = (FIELD.3 - FIELD.1) * *count as f64 / most as f64;
        let (x, y) = (FIELD.0 + at as f64 * step, FIELD.3 - height);
        let class = class_of(if at == 0 { Part::FreePages } else { Part::Live });
        let told = format!(
            "{}: {}, {:.1} % of the heap's pages",
            range(at, heap.page),
            bytes(count * heap.page),
            percent(*count, all)
        );
        let (anchor, label) = match at {
            ..2 => ("start", x),
            at if at + 3 > counts.len() => ("end", x + step - 3.0),
            _ => ("middle", x + step / 2.0),
        };
        html! {
            rect class=(class) x=(tenth(x)) y=(tenth(y)) width=(tenth(step - 3.0)) height=(tenth(height)) { title { (told) } }
            // The value is written above the highest bar.
            @if *count == most { (word(label, y - 6.0, anchor, &bytes(count * heap.page))) }
        }
    };
    // A quarter of the smallest page is 1 KiB.
    let quarters = |count: u64| format!("{} KiB", count * heap.page / 4096);
    let labels = [
        (0, "0", "start"),
        (4, &quarters(1), "middle"),
        (8, &quarters(2), "middle"),
        (12, &quarters(3), "middle"),
        (17, &quarters(4), "end"),
    ];
    let foot = |(at, label, anchor): &(usize, &str, &str)| {
        let x = FIELD.0 + step * *at as f64 + if (1..17).contains(at) { step / 2.0 } else { 0.0 };
        word(x, FIELD.3 + 18.0, anchor, label)
    };
    let title = format!("Live bytes in a page of {}", heap.allocator);
    let drawing = html! {
        svg.histogram viewBox={ "0 0 " (SIZE.0) " " (SIZE.1) } role="img" aria-label=(title) {
            title { (title) }
            @for one in counts.iter().enumerate() { (bar(one)) }
            @for label in &labels { (foot(label)) }
            (word(SIZE.0 / 2.0, FIELD.3 + 38.0, "middle", "live bytes in a page"))
        }
    };
    let empty = counts.first().copied().unwrap_or_default();
    let caption = format!(
        "The bars are memory in pages with that many live bytes. {:.1} % of the pages have none, {:.1} % are full: between the \
         two, live blocks pin memory that is free.",
        percent(empty, all),
        percent(counts.last().copied().unwrap_or_default(), all)
    );
    Some(Picture { title, drawing, caption, is_numbered: false })
}

fn word(x: f64, y: f64, anchor: &str, text: &str) -> Markup {
    html! { text x=(tenth(x)) y=(tenth(y)) text-anchor=(anchor) { (text) } }
}

/// The range of live bytes in a page for which a bar counts pages.
fn range(at: usize, page: u64) -> String {
    match at {
        0 => "no live byte".into(),
        at => format!("{} to {} live bytes", (at as u64 - 1) * (page / 16) + 1, at as u64 * (page / 16)),
    }
}
