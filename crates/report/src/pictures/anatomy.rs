//! Where the memory of each candidate is: a stacked bar for each. In: a panel. Out: a picture.

use super::Picture;
use crate::markup::escaped;
use crate::{anatomies, words};
use allocanary_study::summary::Panel;
use allocanary_study::summary::anatomy::PARTS;

const LEFT: f64 = 30.0;
const RIGHT: f64 = 530.0;
/// The height of a bar with its distance to the next.
const ROW: f64 = 30.0;
/// An entry of the key.
const ENTRY: (f64, f64) = (180.0, 20.0);

/// The bars of one column.
pub fn anatomy(panel: &Panel, column: usize) -> Option<Picture> {
    let found = anatomies::at(panel, column);
    let most = found.iter().map(|(_, _, anatomy)| anatomy.rss).fold(0.0, f64::max);
    if found.is_empty() || most.is_nan() || most <= 0.0 {
        return None;
    }
    let title = anatomies::heading(panel, column, &found).replacen('w', "W", 1);
    let mut body = String::new();
    for (row, (line, candidate, anatomy)) in found.iter().enumerate() {
        let top = 8.0 + row as f64 * ROW;
        let word = |x: f64, anchor: &str, text: &str| {
            format!("<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{text}</text>\n", top + 15.0)
        };
        body.push_str(&word(LEFT - 8.0, "end", &(line + 1).to_string()));
        let mut x = LEFT;
        for (at, part) in PARTS.iter().enumerate().filter(|(_, part)| anatomy.get(**part) > 0.0) {
            let width = anatomy.get(*part) / most * (RIGHT - LEFT);
            let mebibytes = words::mebibytes(anatomy.get(*part));
            let told = format!("{}: {} {mebibytes} MiB", escaped(&candidate.name()), anatomy.name(*part));
            body.push_str(&format!(
                "<rect class=\"part-{at}\" x=\"{x:.2}\" y=\"{top:.1}\" width=\"{width:.2}\" height=\"20\"><title>{told}</title></rect>\n"
            ));
            x += width;
        }
        body.push_str(&word(x + 5.0, "start", &words::mebibytes(anatomy.rss)));
    }
    let used = |at: usize| found.iter().any(|(_, _, anatomy)| anatomy.get(PARTS[at]) > 0.0);
    let key = 8.0 + found.len() as f64 * ROW + 6.0;
    let mut height = key;
    for (place, at) in (0..PARTS.len()).filter(|at| used(*at)).enumerate() {
        let (x, y) = (LEFT + (place % 3) as f64 * ENTRY.0, key + (place / 3) as f64 * ENTRY.1);
        let known = found.iter().find(|(_, _, anatomy)| anatomy.get(PARTS[at]) > 0.0);
        let name = known.map_or("", |(_, _, anatomy)| anatomy.name(PARTS[at]));
        body.push_str(&format!(
            "<rect class=\"part-{at}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"12\" height=\"12\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{name}</text>\n",
            x + 17.0,
            y + 10.5
        ));
        height = y + ENTRY.1;
    }
    let svg = format!(
        "<svg class=\"anatomy\" viewBox=\"0 0 590 {height:.0}\" role=\"img\" aria-label=\"{title}\"><title>{title}</title>\n{body}</svg>"
    );
    let said = found.iter().filter_map(|(_, line, anatomy)| anatomies::sentence(&line.name(), anatomy));
    let caption = format!(
        "Each bar is the process with the median resident memory (MiB); its parts add up to that. {}",
        said.collect::<Vec<_>>().join(" ")
    );
    Some(Picture { title, svg, caption: caption.trim_end().to_string() })
}
