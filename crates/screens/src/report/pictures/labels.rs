//! Places names next to their points, so that no name hides a point or another name. In: points and texts. Out: the lines of each text and
//! their place.

use crate::draw::canvas::FIELD;

/// The width of a letter and the height of a line, in units of the sheet. They are for the larger text of small screens.
const LETTER: (f64, f64) = (8.2, 16.0);
/// A line of a name is broken at a setting after this many letters.
const BREAK_AFTER: usize = 15;
/// Half the side of the square that a point takes.
const POINT: f64 = 8.0;

/// A name at its place.
#[derive(Debug, PartialEq)]
pub struct Label {
    /// Its lines.
    pub lines: Vec<String>,
    /// The left edge and the middle of the first line.
    pub at: (f64, f64),
    /// Whether it is so far from its point that a line should connect the two.
    pub is_far: bool,
}

impl Label {
    /// The middle of the edge that is nearest to a point.
    pub fn edge(&self, point: (f64, f64)) -> (f64, f64) {
        let (left, top, right, bottom) = boxed(&self.lines, self.at);
        (point.0.clamp(left, right), point.1.clamp(top, bottom))
    }
}

type Rect = (f64, f64, f64, f64);

/// A label for each point, in the points' order.
pub fn place(points: &[(f64, f64)], texts: &[String]) -> Vec<Label> {
    let marks: Vec<Rect> = points.iter().map(|(x, y)| (x - POINT, y - POINT, x + POINT, y + POINT)).collect();
    let mut taken: Vec<Rect> = Vec::new();
    let mut labels = Vec::new();
    for (point, text) in points.iter().zip(texts) {
        let lines = broken(text);
        let mut best: Option<(f64, Label)> = None;
        for distance in [2.0, 14.0, 30.0, 50.0, 75.0, 105.0] {
            for at in around(*point, &lines, distance) {
                let here = boxed(&lines, at);
                let hidden: f64 = marks.iter().chain(&taken).map(|other| overlap(here, *other)).sum();
                let cost = hidden + 100.0 * outside(here) + distance;
                if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                    best = Some((cost, Label { lines: lines.clone(), at, is_far: distance > 14.0 }));
                }
            }
        }
        if let Some((_, label)) = best {
            taken.push(boxed(&label.lines, label.at));
            labels.push(label);
        }
    }
    labels
}

/// The name in lines, broken where a setting begins.
fn broken(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for piece in text.split_inclusive([':', ',', ' ']) {
        let last = lines.len() - 1;
        if !lines[last].is_empty() && lines[last].chars().count() + piece.chars().count() > BREAK_AFTER {
            lines.push(piece.to_string());
        } else {
            lines[last].push_str(piece);
        }
    }
    lines
}

/// The places around a point at some distance: right, left, above, below, and between these.
fn around((x, y): (f64, f64), lines: &[String], distance: f64) -> Vec<(f64, f64)> {
    let (left, top, right, bottom) = boxed(lines, (0.0, 0.0));
    let (wide, high) = (right - left, bottom - top);
    let gap = POINT + distance;
    // `boxed` begins half a line above the place.
    let first = |top: f64| top + LETTER.1 / 2.0;
    vec![
        (x + gap, first(y - high / 2.0)),
        (x - gap - wide, first(y - high / 2.0)),
        (x + gap, first(y - gap - high)),
        (x + gap, first(y + gap)),
        (x - gap - wide, first(y - gap - high)),
        (x - gap - wide, first(y + gap)),
        (x - wide / 2.0, first(y - gap - high)),
        (x - wide / 2.0, first(y + gap)),
    ]
}

fn boxed(lines: &[String], (x, y): (f64, f64)) -> Rect {
    let letters = lines.iter().map(|line| line.chars().count()).max().unwrap_or_default();
    let top = y - LETTER.1 / 2.0;
    (x, top, x + letters as f64 * LETTER.0, top + lines.len() as f64 * LETTER.1)
}

fn overlap(a: Rect, b: Rect) -> f64 {
    let wide = (a.2.min(b.2) - a.0.max(b.0)).max(0.0);
    wide * (a.3.min(b.3) - a.1.max(b.1)).max(0.0)
}

/// How far a label extends beyond the field.
fn outside(label: Rect) -> f64 {
    let (left, top, right, bottom) = FIELD;
    (left - label.0).max(0.0) + (label.2 - right).max(0.0) + (top - label.1).max(0.0) + (label.3 - bottom).max(0.0)
}

/// The height of a line.
pub const LINE: f64 = LETTER.1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_is_broken_at_its_settings() {
        let said = ["jemalloc:", "narenas=1,", "tcache=false"];
        assert_eq!(broken("jemalloc:narenas=1,tcache=false"), said);
        assert_eq!(broken("mimalloc"), ["mimalloc"]);
        assert_eq!(broken(""), [""]);
    }

    #[test]
    fn no_name_hides_a_point_or_another_name() {
        let points = [(200.0, 200.0), (205.0, 204.0), (300.0, 60.0), (520.0, 280.0), (90.0, 20.0), (206.0, 196.0)];
        let texts = ["system", "system:arena_max=1", "jemalloc", "jemalloc:narenas=1,tcache=false", "mimalloc", "own"];
        let labels = place(&points, &texts.map(String::from));
        assert_eq!(labels.len(), points.len());
        let boxes: Vec<Rect> = labels.iter().map(|label| boxed(&label.lines, label.at)).collect();
        for (at, here) in boxes.iter().enumerate() {
            assert!(outside(*here) == 0.0, "{:?} leaves the field", labels[at]);
            let others = boxes.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, other)| *other);
            let points = points.iter().map(|(x, y)| (x - 5.0, y - 5.0, x + 5.0, y + 5.0));
            assert!(others.chain(points).all(|other| overlap(*here, other) == 0.0), "{:?} hides something", labels[at]);
        }
    }
}
