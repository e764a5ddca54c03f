//! The sheet on which pictures are drawn. In: lines, marks and words in units of the sheet. Out: SVG.

use maud::{Markup, PreEscaped, html};
use plotters::coord::Shift;
use plotters::element::{Drawable, PointCollection};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::draw::palette;
use crate::draw::scale::AxisScale;

/// The sheet's size. A unit is one pixel if the page is about 1280 pixels wide.
const SIZE: (f64, f64) = (560.0, 340.0);

/// The backend's coordinates are integers, so a unit has this many parts.
const FINE: f64 = 4.0;

/// The plotting area: left, top, right, bottom.
pub const FIELD: (f64, f64, f64, f64) = (80.0, 14.0, 526.0, 286.0);

/// A sheet.
pub struct Canvas<'a>(DrawingArea<SVGBackend<'a>, Shift>);

/// The side of a place on which a word is written. Alias of plotters' type.
pub use plotters::style::text_anchor::HPos as Side;

impl<'a> Canvas<'a> {
    /// Draws, and returns the SVG for a page. The SVG has no fixed size. `name` describes the picture to readers who cannot see it.
    pub fn paint(name: &str, draw: impl FnOnce(&Canvas)) -> Markup {
        let mut svg = String::new();
        let size = ((SIZE.0 * FINE) as u32, (SIZE.1 * FINE) as u32);
        let canvas = Canvas(SVGBackend::with_string(&mut svg, size).into_drawing_area());
        draw(&canvas);
        canvas.0.present().expect("a string takes all that is drawn");
        drop(canvas);
        // The page's own `svg` element replaces the outermost one.
        let body = svg.split_once('>').map_or("", |(_, body)| body).trim_end().trim_end_matches("</svg>");
        html! {
            svg viewBox={ "0 0 " (size.0) " " (size.1) } role="img" aria-label=(name) {
                title { (name) }
                (PreEscaped(body))
            }
        }
    }

    /// A place in the field, from shares of the field's width and height. A larger `up` is further up.
    pub fn place(across: f64, up: f64) -> (f64, f64) {
        (FIELD.0 + across * (FIELD.2 - FIELD.0), FIELD.3 - up * (FIELD.3 - FIELD.1))
    }

    /// The vertical axis: a line and a label for each tick.
    pub fn upright(&self, scale: &AxisScale) {
        for tick in &scale.ticks {
            let y = Canvas::place(0.0, scale.share(*tick)).1;
            self.line(&[(FIELD.0, y), (FIELD.2, y)], palette::GRID, 1.0);
            self.word(&scale.label(*tick), (FIELD.0 - 8.0, y), HPos::Right, palette::MUTED);
        }
    }

    /// The horizontal axis of a scale.
    pub fn level(&self, scale: &AxisScale, name: &str) {
        for tick in &scale.ticks {
            let x = Canvas::place(scale.share(*tick), 0.0).0;
            self.line(&[(x, FIELD.1), (x, FIELD.3)], palette::GRID, 1.0);
        }
        let labels: Vec<(f64, String)> =
            scale.ticks.iter().map(|tick| (scale.share(*tick), scale.label(*tick))).collect();
        self.feet(&apart(labels), name);
    }

    /// Labels below the field at these shares of its width, and the axis's name below them.
    pub fn feet(&self, labels: &[(f64, String)], name: &str) {
        self.line(&[(FIELD.0, FIELD.3), (FIELD.2, FIELD.3)], palette::MUTED, 1.0);
        for (share, label) in labels {
            let x = Canvas::place(*share, 0.0).0;
            self.word(label, (x, FIELD.3 + 14.0), HPos::Center, palette::MUTED);
        }
        self.word(name, ((FIELD.0 + FIELD.2) / 2.0, FIELD.3 + 38.0), HPos::Center, palette::MUTED);
    }

    /// A line through the places.
    pub fn line(&self, places: &[(f64, f64)], color: RGBColor, width: f64) {
        let places: Vec<(i32, i32)> = places.iter().map(fine).collect();
        self.put(&PathElement::new(places, color.stroke_width((width * FINE) as u32)));
    }

    /// A thin line in the background.
    pub fn thin(&self, places: &[(f64, f64)], color: RGBColor) {
        let places: Vec<(i32, i32)> = places.iter().map(fine).collect();
        self.put(&PathElement::new(places, color.mix(0.45).stroke_width(FINE as u32)));
    }

    /// A dashed line through the places.
    pub fn dashes(&self, places: &[(f64, f64)], color: RGBColor, width: f64) {
        const DASH: f64 = 5.0;
        // The start of the next dash on this piece. It continues around corners, so that corners look like the rest.
        let mut start = 0.0;
        for pair in places.windows(2) {
            let (from, to) = (pair[0], pair[1]);
            let length = (to.0 - from.0).hypot(to.1 - from.1);
            let at = |way: f64| {
                let share = (way / length).min(1.0);
                (from.0 + share * (to.0 - from.0), from.1 + share * (to.1 - from.1))
            };
            while start < length {
                self.line(&[at(start), at(start + DASH)], color, width);
                start += DASH * 2.0;
            }
            start -= length;
        }
    }

    /// An interval: a line with a crossbar at each end.
    pub fn interval(&self, from: (f64, f64), to: (f64, f64), color: RGBColor) {
        let bar = if from.1 == to.1 { (0.0, 4.0) } else { (4.0, 0.0) };
        self.line(&[from, to], color, 1.5);
        for end in [from, to] {
            self.line(&[(end.0 - bar.0, end.1 - bar.1), (end.0 + bar.0, end.1 + bar.1)], color, 1.5);
        }
    }

    /// A candidate's mark, with an outline in the background's colour to separate it from what is below.
    pub fn mark(&self, candidate: usize, place: (f64, f64), size: f64) {
        for (size, color) in [(size + 1.7, palette::PAPER), (size, palette::color(candidate))] {
            let corner = |(x, y): &(f64, f64)| fine(&(place.0 + x * size, place.1 + y * size));
            let corners: Vec<(i32, i32)> = palette::mark(candidate).iter().map(corner).collect();
            self.put(&Polygon::new(corners, color.filled()));
        }
    }

    /// A word. The page sets its size.
    pub fn word(&self, text: &str, place: (f64, f64), side: HPos, color: RGBColor) {
        let style =
            TextStyle::from(("sans-serif", 16.0 * FINE).into_font()).color(&color).pos(Pos::new(side, VPos::Center));
        self.put(&Text::new(text.to_string(), fine(&place), style));
    }

    fn put<'e, E>(&self, element: &'e E)
    where
        &'e E: PointCollection<'e, (i32, i32)>,
        E: Drawable<SVGBackend<'a>>,
    {
        self.0.draw(element).expect("a string takes all that is drawn");
    }
}

fn fine(place: &(f64, f64)) -> (i32, i32) {
    ((place.0 * FINE).round() as i32, (place.1 * FINE).round() as i32)
}

/// Moves the heights of labels apart until neighbours have a distance of at least `gap`, as little as needed and within
/// the field. If there are too many labels for that, they are placed evenly.
pub fn spread(heights: &[f64], gap: f64) -> Vec<f64> {
    let (top, bottom) = (FIELD.1, FIELD.3);
    let gap = gap.min((bottom - top) / heights.len().saturating_sub(1).max(1) as f64);
    let mut order: Vec<usize> = (0..heights.len()).collect();
    order.sort_by(|a, b| heights[*a].total_cmp(&heights[*b]));
    let mut placed = heights.to_vec();
    // The first pass goes down from the top. The second moves labels below the bottom back up. Both keep the order.
    let mut least = top;
    for at in &order {
        placed[*at] = placed[*at].max(least);
        least = placed[*at] + gap;
    }
    let mut most = bottom;
    for at in order.iter().rev() {
        placed[*at] = placed[*at].min(most);
        most = placed[*at] - gap;
    }
    placed
}

/// The labels of a horizontal axis, without those that would touch the label before them. The tick line of a dropped label stays. Words are
/// largest in print, where `page.css` has 72px, of [`FINE`] pixels each.
fn apart(mut labels: Vec<(f64, String)>) -> Vec<(f64, String)> {
    const EM: f64 = 72.0 / FINE;
    const DIGIT: f64 = 0.6 * EM;
    let mut taken = f64::NEG_INFINITY;
    labels.retain(|(share, label)| {
        let (x, half) = (Canvas::place(*share, 0.0).0, label.chars().count() as f64 * DIGIT / 2.0);
        let fits = x - half >= taken + DIGIT / 2.0;
        if fits {
            taken = x + half;
        }
        fits
    });
    labels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_an_axis_do_not_touch() {
        let shown = |labels: &[(f64, &str)]| {
            let labels = labels.iter().map(|(share, label)| (*share, label.to_string())).collect();
            apart(labels).into_iter().map(|(_, label)| label).collect::<Vec<_>>()
        };
        assert_eq!(shown(&[(0.0, "0"), (0.25, "2 k/s"), (0.5, "4 k/s")]), ["0", "2 k/s", "4 k/s"]);
        let decades =
            [(0.1, "100 us"), (0.24, "300 us"), (0.38, "1 ms"), (0.52, "3 ms"), (0.66, "10 ms"), (0.8, "30 ms")];
        assert_eq!(shown(&decades), ["100 us", "1 ms", "3 ms", "10 ms", "30 ms"]);
        assert_eq!(shown(&[(0.85, "800 ms"), (0.98, "1 s"), (0.99, "2 s")]), ["800 ms", "1 s"]);
    }

    #[test]
    fn labels_are_moved_apart_and_stay_in_the_field() {
        assert_eq!(spread(&[50.0, 100.0], 16.0), [50.0, 100.0]);
        assert_eq!(spread(&[60.0, 50.0, 55.0], 16.0), [82.0, 50.0, 66.0]);
        assert_eq!(spread(&[280.0, 285.0], 16.0), [270.0, 286.0]);
        let many = spread(&[100.0; 40], 16.0);
        assert!(many.iter().all(|height| (FIELD.1 - 1e-6..=FIELD.3 + 1e-6).contains(height)), "{many:?}");
        assert!(spread(&[], 16.0).is_empty());
    }
}
