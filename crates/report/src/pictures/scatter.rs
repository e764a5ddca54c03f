//! Memory over throughput, with the Pareto front of the candidates. In: a panel. Out: a picture.

use super::canvas::{Canvas, Side};
use super::front::front;
use super::scale::Scale;
use super::{Picture, figure, palette};
use crate::words;
use allocanary_kernel::units::Unit;
use allocanary_study::summary::{Estimate, Panel};

/// RSS when idle over throughput at one column.
pub fn memory_for_throughput(panel: &Panel, column: usize) -> Option<Picture> {
    let both = |line| figure(line, column, "rss").zip(figure(line, column, "throughput"));
    let dots: Vec<(usize, Estimate, Estimate)> =
        panel.lines.iter().enumerate().filter_map(|(at, line)| both(line).map(|(rss, ops)| (at, rss, ops))).collect();
    if dots.is_empty() {
        return None;
    }
    let figures: Vec<Vec<f64>> = dots.iter().map(|(_, rss, _)| vec![rss.low, rss.median, rss.high]).collect();
    let scales = Scales {
        rss: Scale::fitting(Unit::Bytes, &figures, &[]),
        ops: Scale::linear(Unit::PerSecond, dots.iter().map(|(_, _, ops)| ops.high)),
    };
    let pairs: Vec<(f64, f64)> = dots.iter().map(|(_, rss, ops)| (rss.median, ops.median)).collect();
    let best = front(&pairs);
    let title = format!("Memory for throughput at {}", words::column(panel.axis, panel.columns[column]));
    let svg = Canvas::paint(&title, |canvas| draw(canvas, &scales, &dots, &best));
    let numbers: Vec<String> = best.iter().map(|at| (dots[*at].0 + 1).to_string()).collect();
    let caption = format!(
        "Further down is less memory when idle, further right more throughput. No candidate beats those on the \
         broken line ({}) in both.{}",
        numbers.join(", "),
        scales.rss.note()
    );
    Some(Picture { title, svg, caption })
}

struct Scales {
    rss: Scale,
    ops: Scale,
}

impl Scales {
    fn place(&self, rss: f64, ops: f64) -> (f64, f64) {
        Canvas::place(self.ops.share(ops), self.rss.share(rss))
    }
}

fn draw(canvas: &Canvas, scales: &Scales, dots: &[(usize, Estimate, Estimate)], best: &[usize]) {
    canvas.level(&scales.ops, "operations in a second");
    canvas.upright(&scales.rss);
    let places: Vec<(f64, f64)> = dots.iter().map(|(_, rss, ops)| scales.place(rss.median, ops.median)).collect();
    let stairs = stairs(&best.iter().map(|at| places[*at]).collect::<Vec<_>>());
    canvas.dashes(&stairs, palette::MUTED, 1.5);
    for (candidate, rss, ops) in dots {
        let color = palette::color(*candidate);
        canvas.interval(scales.place(rss.low, ops.median), scales.place(rss.high, ops.median), color);
        canvas.interval(scales.place(rss.median, ops.low), scales.place(rss.median, ops.high), color);
    }
    for ((candidate, _, _), place) in dots.iter().zip(&places) {
        canvas.mark(*candidate, *place, 6.5);
    }
    let mut taken: Vec<(f64, f64)> = places.iter().copied().chain(stairs.windows(2).flat_map(along)).collect();
    for ((candidate, _, _), place) in dots.iter().zip(&places) {
        let at = free_place(*place, &taken);
        taken.push(at);
        canvas.word(&(candidate + 1).to_string(), at, Side::Center, palette::INK);
    }
}

/// The edge of the region that the front beats: from the left edge to each of its places in turn, and up from the last.
fn stairs(front: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let (Some(first), Some(last)) = (front.first(), front.last()) else { return Vec::new() };
    let mut way = vec![(Canvas::place(0.0, 0.0).0, first.1)];
    for place in front {
        let before = way[way.len() - 1];
        way.extend([(before.0, place.1), *place]);
    }
    way.push((last.0, Canvas::place(0.0, 1.0).1));
    way.dedup();
    way
}

/// Places along a piece of the edge, so close that no label fits between two.
fn along(piece: &[(f64, f64)]) -> impl Iterator<Item = (f64, f64)> {
    let (from, way) = (piece[0], (piece[1].0 - piece[0].0, piece[1].1 - piece[0].1));
    let steps = (way.0.hypot(way.1) / 8.0).ceil().max(1.0);
    (0..=steps as usize)
        .map(move |step| step as f64 / steps)
        .map(move |share| (from.0 + share * way.0, from.1 + share * way.1))
}

/// The position next to `place` where a label is furthest from all taken places; up and to the right if none is near.
fn free_place(place: (f64, f64), taken: &[(f64, f64)]) -> (f64, f64) {
    let beside = [(14.0, -12.0), (14.0, 12.0), (-14.0, -12.0), (-14.0, 12.0), (0.0, -19.0), (0.0, 19.0)];
    let room = |at: &(f64, f64)| {
        let far = |other: &(f64, f64)| (at.0 - other.0).hypot(at.1 - other.1);
        // More room than this is not better.
        taken.iter().map(far).fold(18.0, f64::min)
    };
    let places = beside.map(|(x, y)| (place.0 + x, place.1 + y));
    places.into_iter().rev().max_by(|a, b| room(a).total_cmp(&room(b))).unwrap_or(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_edge_climbs_from_place_to_place() {
        let (left, top) = (Canvas::place(0.0, 0.0).0, Canvas::place(0.0, 1.0).1);
        let way = stairs(&[(200.0, 250.0), (300.0, 150.0)]);
        let steps = [(left, 250.0), (200.0, 250.0), (200.0, 150.0), (300.0, 150.0), (300.0, top)];
        assert_eq!(way, steps);
        assert!(stairs(&[]).is_empty());
        assert_eq!(stairs(&[(200.0, 250.0), (200.0, 250.0)]).len(), 3, "equal places are one corner");
    }

    #[test]
    fn a_label_goes_where_there_is_room() {
        assert_eq!(free_place((100.0, 100.0), &[(100.0, 100.0)]), (114.0, 88.0));
        assert_eq!(free_place((100.0, 100.0), &[(100.0, 100.0), (114.0, 90.0)]), (114.0, 112.0));
    }
}
