//! How many live bytes the pages have. In: a heap. Out: a picture.

use super::{bytes, percent};
use crate::markup::escaped;
use crate::pictures::Picture;
use allocanary_heap::{Heap, PAGE};

const SIZE: (f64, f64) = (560.0, 250.0);
/// The field of the bars: left, top, right, bottom.
const FIELD: (f64, f64, f64, f64) = (8.0, 24.0, 552.0, 206.0);

/// A bar for each sixteenth of a page.
pub fn live_in_a_page(heap: &Heap) -> Option<Picture> {
    let counts = &heap.live_in_a_page;
    let most = counts.iter().copied().max().filter(|most| *most > 0)?;
    let all: u64 = counts.iter().sum();
    let step = (FIELD.2 - FIELD.0) / counts.len() as f64;
    let mut body = String::new();
    for (at, count) in counts.iter().enumerate() {
        let height = (FIELD.3 - FIELD.1) * *count as f64 / most as f64;
        let (x, y) = (FIELD.0 + at as f64 * step, FIELD.3 - height);
        let class = if at == 0 { "part-6" } else { "part-2" };
        let told = format!("{}: {}, {:.1} % of the heap's pages", range(at), bytes(count * PAGE), percent(*count, all));
        body.push_str(&format!(
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{height:.1}\"><title>{}</title></rect>\n",
            step - 3.0,
            escaped(&told)
        ));
        // The highest bar has its value.
        if *count == most {
            let anchor = if at < 2 {
                "start"
            } else if at + 3 > counts.len() {
                "end"
            } else {
                "middle"
            };
            let x = match anchor {
                "start" => x,
                "end" => x + step - 3.0,
                _ => x + step / 2.0,
            };
            let told = bytes(count * PAGE);
            body.push_str(&format!("<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{told}</text>\n", y - 6.0));
        }
    }
    let labels = [
        (0, "0", "start"),
        (4, "1 KiB", "middle"),
        (8, "2 KiB", "middle"),
        (12, "3 KiB", "middle"),
        (17, "4 KiB", "end"),
    ];
    for (at, label, anchor) in labels {
        let x = FIELD.0 + step * at as f64 + if (1..17).contains(&at) { step / 2.0 } else { 0.0 };
        body.push_str(&format!(
            "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{label}</text>\n",
            FIELD.3 + 18.0
        ));
    }
    body.push_str(&format!(
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">live bytes in a page</text>\n",
        SIZE.0 / 2.0,
        FIELD.3 + 38.0
    ));
    let title = format!("Live bytes in a page of {}", heap.allocator);
    let name = escaped(&title);
    let svg = format!(
        "<svg class=\"histogram\" viewBox=\"0 0 {:.0} {:.0}\" role=\"img\" aria-label=\"{name}\"><title>{name}</title>\n{body}</svg>",
        SIZE.0, SIZE.1
    );
    let empty = counts.first().copied().unwrap_or_default();
    let caption = format!(
        "The bars are memory in pages with that many live bytes. {:.1} % of the pages have none, {:.1} % are full: between the \
         two, live blocks pin memory that is free.",
        percent(empty, all),
        percent(counts.last().copied().unwrap_or_default(), all)
    );
    Some(Picture { title, svg, caption })
}

/// The live bytes of the pages of a bar.
fn range(at: usize) -> String {
    match at {
        0 => "no live byte".into(),
        at => format!("{} to {} live bytes", (at - 1) * 256 + 1, at * 256),
    }
}
