//! The page about a process's memory. In: its readings, the latest last. Out: HTML with pictures that fetches nothing.

use std::time::Duration;

use super::map::{self, class_of, color};
use super::remedies::{Paste, remedies};
use super::{bytes, histogram, percent, text};
use crate::html::STYLE;
use crate::markup::{escaped, prose};
use crate::pictures::{Picture, palette};
use crate::trace::drawn;
use allocanary_heap::{Heap, PARTS, Part, Parts, Reading, answer, rows};
use allocanary_kernel::units::{Unit, show_time};

/// What this page adds to the style of all pages.
const OWN: &str = include_str!("page.css");
/// The arenas in the table.
const ARENAS: usize = 20;
/// The lines of the picture over time.
const OVER_TIME: [Part; 5] = [Part::Live, Part::Cached, Part::Free, Part::Kept, Part::Lazy];

/// The page. `readings` are of one process, in the order of time; without one there is nothing to show.
pub fn page(readings: &[Reading], paste: &[Paste]) -> String {
    let Some(reading) = readings.last() else { return String::new() };
    let title = escaped(&format!("The memory of {}", reading.process.name));
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>{title} - allocanary</title>\n<style>\n{}{STYLE}{OWN}</style>\n</head>\n<body>\n\
         <header>\n<p class=\"brand\">allocanary</p>\n<h1>{title}</h1>\n{}</header>\n<main>\n\
         <section>\n<h2>Where it is</h2>\n<p class=\"answer\">{}</p>\n{}{}</section>\n{}{}{}{}</main>\n</body>\n</html>\n",
        palette::css(),
        facts(reading),
        prose(&answer::answer(reading)),
        bar(reading),
        parts(reading),
        over_time(readings),
        reading.heaps.iter().map(heap).collect::<String>(),
        what_to_do(reading, paste),
        checked(reading),
    )
}

fn facts(reading: &Reading) -> String {
    let process = &reading.process;
    let rows = [
        ("Process", escaped(text::subject(reading).trim_start_matches("process "))),
        ("Executable", format!("<code>{}</code>", escaped(&process.executable))),
        ("Read", escaped(&format!("{} UTC", show_time(Duration::from_millis(reading.taken))))),
    ];
    let rows: String = rows.iter().map(|(label, value)| format!("<dt>{label}</dt><dd>{value}</dd>\n")).collect();
    format!("<dl class=\"facts\">\n{rows}</dl>\n")
}

/// All of the memory as one bar.
fn bar(reading: &Reading) -> String {
    let mut body = String::new();
    let mut left = 0.0;
    for row in rows(reading) {
        let width = percent(row.resident, reading.resident);
        let told = escaped(&format!("{}: {}", row.full_name(), bytes(row.resident)));
        let class = class_of(row.part, row.sort);
        body.push_str(&format!(
            "<rect class=\"{class}\" x=\"{left:.3}\" y=\"0\" width=\"{width:.3}\" height=\"6\"><title>{told}</title></rect>\n"
        ));
        left += width;
    }
    format!(
        "<svg class=\"whole\" viewBox=\"0 0 100 6\" preserveAspectRatio=\"none\" role=\"img\" \
         aria-label=\"The parts of the memory, as in the table\">\n{body}</svg>\n"
    )
}

/// A key: the square of a colour.
fn key(class: &str) -> String {
    format!(
        "<svg class=\"key\" viewBox=\"0 0 12 12\" aria-hidden=\"true\"><rect class=\"{class}\" width=\"12\" height=\"12\"/></svg>"
    )
}

fn parts(reading: &Reading) -> String {
    let several = reading.heaps.len() > 1;
    let mut body = String::new();
    for row in rows(reading) {
        let name = if several { row.full_name() } else { row.name.clone() };
        let share = percent(row.resident, reading.resident);
        body.push_str(&format!(
            "<tr><th scope=\"row\">{} {}</th><td>{}</td><td>{share:.1}&nbsp;%</td></tr>\n",
            key(class_of(row.part, row.sort)),
            escaped(&name),
            bytes(row.resident)
        ));
    }
    let swapped = match reading.kernel.swapped {
        0 => String::new(),
        more => format!("<p class=\"note\">In swap, and not resident: {}.</p>\n", bytes(more)),
    };
    format!(
        "<div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\">part</th><th scope=\"col\">resident</th>\
         <th scope=\"col\">of all</th></tr></thead>\n<tbody>\n{body}<tr><th scope=\"row\"><b>all that is resident</b></th>\
         <td><b>{}</b></td><td></td></tr>\n</tbody>\n</table></div>\n{swapped}",
        bytes(reading.resident)
    )
}

fn over_time(readings: &[Reading]) -> String {
    let [first, _, ..] = readings else { return String::new() };
    let line = |value: &dyn Fn(&Reading) -> u64| -> Vec<(f64, f64)> {
        let at = |reading: &Reading| reading.taken.saturating_sub(first.taken) as f64 * 1e3;
        readings.iter().map(|reading| (at(reading), value(reading) as f64)).collect()
    };
    let mut lines = vec![("resident", line(&|reading| reading.resident))];
    lines.extend(OVER_TIME.map(|part| (part.name(), line(&|reading| reading.parts().of(part)))));
    lines.retain(|(_, points)| points.iter().any(|(_, bytes)| *bytes > 0.0));
    let entry = |(at, name): (usize, &str)| format!("<li>{}<b>{}</b> {name}</li>\n", palette::swatch(at), at + 1);
    let legend: String = lines.iter().map(|(name, _)| *name).enumerate().map(entry).collect();
    let numbered: Vec<(usize, Vec<(f64, f64)>)> = lines.into_iter().map(|(_, points)| points).enumerate().collect();
    let caption = format!("{} readings of the process.", readings.len());
    let picture = drawn("Parts over time", Unit::Bytes, &numbered, &caption);
    format!(
        "<section>\n<h2>Over time</h2>\n<ol class=\"legend\" aria-label=\"Lines\">\n{legend}</ol>\n<div class=\"pictures\">\n{}</div>\n\
         </section>\n",
        picture.iter().map(Picture::figure).collect::<String>()
    )
}

fn heap(heap: &Heap) -> String {
    let pictures: Vec<Picture> =
        [map::by_part(heap), map::by_arena(heap), histogram::live_in_a_page(heap)].into_iter().flatten().collect();
    let name = escaped(&format!("The heap of {} {}", heap.allocator, heap.version));
    let facts = prose(&format!(
        "{} resident; {} live blocks of {}.",
        bytes(heap.resident),
        Unit::Count.show(heap.blocks as f64),
        bytes(heap.live)
    ));
    let used = PARTS.iter().filter(|part| heap.parts.of(**part) > 0);
    let keys: String =
        used.map(|part| format!("<li>{} {}</li>\n", key(class_of(Some(*part), None)), part.name())).collect();
    let figures: String = pictures.iter().map(Picture::figure).collect();
    format!(
        "<section>\n<h2>{name}</h2>\n<p>{facts}</p>\n<ul class=\"legend\" aria-label=\"Parts\">\n{keys}</ul>\n\
         <div class=\"pictures\">\n{figures}</div>\n{}</section>\n",
        arenas(heap)
    )
}

fn arenas(heap: &Heap) -> String {
    if heap.arenas.len() < 2 {
        return String::new();
    }
    let shown: Vec<Part> = PARTS.into_iter().filter(|part| heap.parts.of(*part) > 0).collect();
    let row = |name: &str, square: &str, threads: Option<u64>, parts: &Parts| {
        let threads = threads.map_or_else(|| "-".into(), |count| count.to_string());
        let cells: String = shown.iter().map(|part| format!("<td>{}</td>", bytes(parts.of(*part)))).collect();
        let (name, all) = (escaped(name), bytes(parts.sum()));
        format!("<tr><th scope=\"row\">{square} {name}</th><td>{threads}</td><td>{all}</td>{cells}</tr>\n")
    };
    let square = |name: &str| match color(heap, name) {
        Some(color) => format!(
            "<svg class=\"key\" viewBox=\"0 0 12 12\" aria-hidden=\"true\">\
             <rect style=\"fill:var(--candidate-{color})\" width=\"12\" height=\"12\"/></svg>"
        ),
        None => String::new(),
    };
    let (first, others) = heap.arenas.split_at(heap.arenas.len().min(ARENAS));
    let mut body: String =
        first.iter().map(|arena| row(&arena.name, &square(&arena.name), arena.threads, &arena.parts)).collect();
    if !others.is_empty() {
        let mut sum = Parts::default();
        others.iter().for_each(|arena| sum += arena.parts);
        let threads = others.iter().map(|arena| arena.threads).sum();
        body.push_str(&row(&format!("{} others", others.len()), "", threads, &sum));
    }
    let heads: String = shown.iter().map(|part| format!("<th scope=\"col\">{}</th>", part.name())).collect();
    format!(
        "<div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\">arena</th><th scope=\"col\">threads</th>\
         <th scope=\"col\">resident</th>{heads}</tr></thead>\n<tbody>\n{body}</tbody>\n</table></div>\n"
    )
}

fn what_to_do(reading: &Reading, paste: &[Paste]) -> String {
    let remedies = remedies(reading, paste);
    if remedies.is_empty() {
        return String::new();
    }
    let item = |remedy: &super::remedies::Remedy| {
        let text = prose(&remedy.text);
        let lines = match remedy.lines.is_empty() {
            true => String::new(),
            false => format!("<pre>{}</pre>", escaped(&remedy.lines.join("\n"))),
        };
        format!("<li>{text}{lines}</li>\n")
    };
    format!(
        "<section>\n<h2>What to do</h2>\n<ul>\n{}</ul>\n</section>\n",
        remedies.iter().map(item).collect::<String>()
    )
}

fn checked(reading: &Reading) -> String {
    let items: String = text::checked(reading).iter().map(|one| format!("<li>{}</li>\n", prose(one))).collect();
    format!("<section>\n<h2>What was checked, and how sure it is</h2>\n<ul>\n{items}</ul>\n</section>\n")
}
