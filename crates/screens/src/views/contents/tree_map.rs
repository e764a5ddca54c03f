//! A tree map: a rectangle for each holder, with a rectangle for each of its kinds. Areas are in proportion to bytes. In: holders.
//! Out: a picture.

use std::collections::BTreeMap;

use allocanary_contents::Contents;
use allocanary_text::outside::harmless;
use maud::{Markup, html};

use super::{bytes, count};
use crate::draw::Picture;

/// The size of the drawing, and the height of the strip with a holder's name.
const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 560.0;
const STRIP: f64 = 20.0;
/// The width for a holder's number. A phone shows the number instead of the name.
const NUMBER: f64 = 60.0;
/// The number of kinds with a separate colour.
const COLORED: usize = 7;

/// A rectangle of the map: one holder.
pub struct MapRect {
    /// Its name.
    pub name: String,
    /// Its bytes.
    pub bytes: u64,
    /// Its blocks.
    pub blocks: u64,
    /// Its kinds, with bytes and blocks.
    pub kinds: Vec<(String, u64, u64)>,
}

/// The parts of the map: the first holders, all other holders as one part, and the leaked blocks.
pub fn parts(contents: &Contents, most: usize) -> Vec<MapRect> {
    let (first, others) = contents.holders.split_at(contents.holders.len().min(most));
    let mut parts: Vec<MapRect> = first
        .iter()
        .map(|holder| {
            let inside = holder.inside.iter().map(|one| (one.kind.as_str(), one.bytes, one.blocks));
            MapRect {
                name: holder.name.clone(),
                bytes: holder.bytes,
                blocks: holder.blocks,
                kinds: summed(inside, holder.bytes),
            }
        })
        .collect();
    if !others.is_empty() {
        let (name, all) = (format!("{} more holders", others.len()), others.iter().map(|one| one.bytes).sum());
        let inside = others.iter().flat_map(|one| &one.inside).map(|one| (one.kind.as_str(), one.bytes, one.blocks));
        let blocks = others.iter().map(|one| one.blocks).sum();
        parts.push(MapRect { name, bytes: all, blocks, kinds: summed(inside, all) });
    }
    if let Some(leaked) = contents.leaked.as_ref().filter(|leaked| leaked.bytes > 0) {
        let rows = leaked.rows.iter().map(|row| (row.kind.as_str(), row.bytes, row.blocks));
        parts.push(MapRect {
            name: "leaked: held by nothing".into(),
            bytes: leaked.bytes,
            blocks: leaked.blocks,
            kinds: summed(rows, leaked.bytes),
        });
    }
    parts.retain(|part| part.bytes > 0);
    parts
}

/// Sums by kind, the largest first. Bytes of `whole` that are in no row are shown as other kinds.
fn summed<'a>(rows: impl Iterator<Item = (&'a str, u64, u64)>, whole: u64) -> Vec<(String, u64, u64)> {
    let mut sums: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for (kind, bytes, blocks) in rows {
        let sum = sums.entry(kind).or_default();
        (sum.0, sum.1) = (sum.0 + bytes, sum.1 + blocks);
    }
    let mut kinds: Vec<(String, u64, u64)> =
        sums.into_iter().map(|(kind, (bytes, blocks))| (kind.to_string(), bytes, blocks)).collect();
    let told: u64 = kinds.iter().map(|kind| kind.1).sum();
    kinds.push(("other kinds".into(), whole.saturating_sub(told), 0));
    kinds.retain(|kind| kind.1 > 0);
    kinds.sort_by(|one, other| other.1.cmp(&one.1).then(one.0.cmp(&other.0)));
    kinds
}

/// The kinds that have a colour: those with most bytes in the map.
pub fn colored(parts: &[MapRect]) -> Vec<String> {
    let all = parts.iter().flat_map(|part| &part.kinds).map(|(kind, bytes, blocks)| (kind.as_str(), *bytes, *blocks));
    summed(all, 0).into_iter().map(|kind| kind.0).filter(|kind| kind != "other kinds").take(COLORED).collect()
}

/// The map of what a heap contains.
pub fn picture(parts: &[MapRect], colors: &[String]) -> Picture {
    let caption = "Each framed rectangle is a holder, with its number in the table; within it are the kinds that it holds, as large as their \
                   bytes. Kinds without a colour of their own are grey.";
    map(parts, colors, "What holds the memory, by kind", caption)
}

/// A map.
pub fn map(parts: &[MapRect], colors: &[String], title: &str, caption: &str) -> Picture {
    let weights: Vec<f64> = parts.iter().map(|part| part.bytes as f64).collect();
    let areas = squarified(&weights, Area { x: 0.0, y: 0.0, width: WIDTH, height: HEIGHT });
    let drawing = html! {
        svg.treemap viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-label=(title) {
            title { (title) }
            @for (number, (part, area)) in parts.iter().zip(&areas).enumerate() { (holder(number + 1, part, area, colors)) }
        }
    };
    Picture { title: title.into(), drawing, caption: caption.into(), is_numbered: false }
}

fn holder(number: usize, part: &MapRect, area: &Area, colors: &[String]) -> Markup {
    let strip = if area.height > 3.0 * STRIP && area.width > 2.0 * STRIP { STRIP } else { 0.0 };
    let inner = Area { y: area.y + strip, height: area.height - strip, ..*area };
    let weights: Vec<f64> = part.kinds.iter().map(|kind| kind.1 as f64).collect();
    let name = harmless(&part.name);
    html! {
        @for ((kind, all, blocks), tile) in part.kinds.iter().zip(squarified(&weights, inner)) {
            rect fill=(fill(kind, colors)) x=(tenth(tile.x)) y=(tenth(tile.y)) width=(tenth(tile.width)) height=(tenth(tile.height)) {
                title { (harmless(kind)) ": " (bytes(*all)) @if *blocks > 0 { " in " (count(*blocks)) " blocks" } ", held by " (name) }
            }
        }
        @if strip > 0.0 {
            // An inner SVG is clipped at its edge.
            svg x=(tenth(area.x)) y=(tenth(area.y)) width=(tenth(area.width)) height=(STRIP) {
                text.name x="5" y="15" { (number) "  " (name) }
            }
        }
        @if area.height > NUMBER && area.width > NUMBER {
            text.number x=(tenth(area.x + 10.0)) y=(tenth(area.y + NUMBER - 10.0)) { (number) }
        }
        rect.frame x=(tenth(area.x)) y=(tenth(area.y)) width=(tenth(area.width)) height=(tenth(area.height)) {}
    }
}

/// The colour of a kind.
pub fn fill(kind: &str, colors: &[String]) -> String {
    colors.iter().position(|one| one == kind).map_or("var(--bar)".into(), |at| format!("var(--candidate-{at})"))
}

/// A coordinate as text. A tenth of a unit is exact enough.
fn tenth(value: f64) -> String {
    format!("{value:.1}")
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Area {
    x: f64,
    y: f64,
    width: f64,
    height: f64,
}

/// Divides an area among weights, in their order, into rectangles that are as square as possible. Each row is filled along the shorter
/// side. It takes further weights as long as its worst rectangle gets better (Bruls, Huizing, van Wijk, 2000).
fn squarified(weights: &[f64], mut area: Area) -> Vec<Area> {
    let mut left: f64 = weights.iter().sum();
    let mut out = Vec::new();
    let mut next = 0;
    while next < weights.len() {
        let side = area.width.min(area.height);
        let scale = area.width * area.height / left.max(f64::MIN_POSITIVE);
        let worst = |row: &[f64]| {
            let sum: f64 = row.iter().sum::<f64>() * scale;
            let ratio = |weight: &f64| {
                (side * side * weight * scale / (sum * sum)).max(sum * sum / (side * side * weight * scale))
            };
            row.iter().map(ratio).fold(0.0, f64::max)
        };
        let mut end = next + 1;
        while end < weights.len() && worst(&weights[next..=end]) <= worst(&weights[next..end]) {
            end += 1;
        }
        let row = &weights[next..end];
        let sum: f64 = row.iter().sum();
        let thick = sum * scale / side.max(f64::MIN_POSITIVE);
        let mut along = 0.0;
        for weight in row {
            let long = side * weight / sum.max(f64::MIN_POSITIVE);
            out.push(if area.width >= area.height {
                Area { x: area.x, y: area.y + along, width: thick, height: long }
            } else {
                Area { x: area.x + along, y: area.y, width: long, height: thick }
            });
            along += long;
        }
        if area.width >= area.height {
            area = Area { x: area.x + thick, width: area.width - thick, ..area };
        } else {
            area = Area { y: area.y + thick, height: area.height - thick, ..area };
        }
        left -= sum;
        next = end;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_are_as_large_as_their_weights_and_lie_within_the_whole() {
        let weights = [6.0, 6.0, 4.0, 3.0, 2.0, 2.0, 1.0];
        let areas = squarified(&weights, Area { x: 0.0, y: 0.0, width: 6.0, height: 4.0 });
        assert_eq!(areas[0], Area { x: 0.0, y: 0.0, width: 3.0, height: 2.0 }, "as in the paper");
        for (weight, area) in weights.iter().zip(&areas) {
            assert!((area.width * area.height - weight).abs() < 1e-9, "{area:?}");
            assert!(area.x >= 0.0 && area.y >= 0.0 && area.x + area.width < 6.001 && area.y + area.height < 4.001);
            assert!(area.width.max(area.height) / area.width.min(area.height) < 3.0, "{area:?}");
        }
    }

    #[test]
    fn nothing_and_weights_of_nothing_end() {
        let area = Area { x: 0.0, y: 0.0, width: 1.0, height: 1.0 };
        assert!(squarified(&[], area).is_empty());
        assert_eq!(squarified(&[0.0, 0.0], area).len(), 2);
    }

    #[test]
    fn what_is_not_told_is_other_kinds() {
        let rows = [("text", 10, 1), ("node", 30, 2), ("text", 15, 1)];
        let wanted = [("other kinds", 45, 0), ("node", 30, 2), ("text", 25, 2)];
        assert_eq!(
            summed(rows.into_iter(), 100),
            wanted.map(|(kind, bytes, blocks)| (kind.to_string(), bytes, blocks))
        );
    }
}
