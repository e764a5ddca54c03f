//! Memory against time or throughput. The picture marks the candidates that no other one beats in both. In: a panel. Out: a picture.

use super::figure;
use super::labels::{self, LINE};
use crate::draw::canvas::{Canvas, FIELD, Side};
use crate::draw::scale::AxisScale;
use crate::draw::{Picture, palette};
use crate::report::words;
use allocanary_measure::metrics::{Better, Metric, metric_of_all};
use allocanary_measure::summary::{Axis, MedianEstimate, Panel, Recommendation, StudySection, front};
use allocanary_text::units::Unit;

/// The metrics that may get worse with less memory, the most important first.
const PAID_WITH: [&str; 6] = ["throughput", "wall", "time", "per_op", "p99", "cpu"];
/// With more candidates than this, the points have numbers instead of names.
const MOST_NAMES: usize = 14;

/// A candidate with its memory and its cost.
struct Dot {
    candidate: usize,
    memory: MedianEstimate,
    cost: MedianEstimate,
}

/// Memory against throughput or time at one column. The memory is the deciding metric if that is in bytes, or else the resident memory when
/// idle or at the peak. `None` if fewer than two candidates have both.
pub fn memory(section: &StudySection, panel: &Panel, column: usize) -> Option<Picture> {
    let deciding = Recommendation::of(section, panel).map(|found| found.metric);
    let deciding = deciding.iter().filter(|metric| metric.unit == Unit::Bytes);
    let memories: Vec<&Metric> = deciding.chain(["resident", "peak_resident"].map(metric_of_all)).collect();
    // The metrics that the study names come first. Otherwise a program that ends would be shown by its throughput, which is only the
    // inverse of its time.
    let is_shown = |name: &&str| section.about.metrics.iter().any(|metric| metric.name == *name);
    let costs = PAID_WITH.iter().filter(|name| is_shown(name)).chain(&PAID_WITH).map(|name| metric_of_all(name));
    let costs: Vec<&Metric> = costs.collect();
    let pairs = memories.iter().flat_map(|memory| costs.iter().map(move |cost| (*memory, *cost)));
    let (memory, cost, dots) = pairs
        .map(|(memory, cost)| (memory, cost, dots(panel, column, memory, cost)))
        .find(|(_, _, dots)| dots.len() > 1)?;
    let values = |of: &dyn Fn(&Dot) -> MedianEstimate| -> Vec<f64> {
        dots.iter().map(of).flat_map(|one| [one.low, one.median, one.high]).collect()
    };
    let scales = Scales {
        memory: AxisScale::close(memory.unit, &values(&|dot| dot.memory)),
        cost: AxisScale::close(cost.unit, &values(&|dot| dot.cost)),
        more_is_better: cost.better == Better::Higher,
    };
    let gain = |dot: &Dot| if scales.more_is_better { dot.cost.median } else { -dot.cost.median };
    let best = front(&dots.iter().map(|dot| (dot.memory.median, gain(dot))).collect::<Vec<_>>());
    let title = title(panel, column, cost);
    let is_numbered = dots.len() > MOST_NAMES;
    let texts: Vec<String> = dots
        .iter()
        .map(|dot| if is_numbered { (dot.candidate + 1).to_string() } else { panel.lines[dot.candidate].name() })
        .collect();
    let drawing = Canvas::paint(&title, |canvas| draw(canvas, &scales, &dots, &best, &texts, name(cost)));
    let caption = format!(
        "Further down is less memory ({}), further {} {}. The thin lines are 95 % intervals. No candidate beats those on the \
         broken line in both: {}.{}",
        memory.name,
        if scales.more_is_better { "right" } else { "left" },
        if scales.more_is_better { "more throughput" } else { "less time" },
        best.iter().map(|at| texts[*at].as_str()).collect::<Vec<_>>().join(", "),
        scales.memory.note()
    );
    Some(Picture { title, drawing, caption, is_numbered })
}

fn dots(panel: &Panel, column: usize, memory: &Metric, cost: &Metric) -> Vec<Dot> {
    let dot = |(candidate, line)| {
        let (memory, cost) = (figure(line, column, &memory.name)?, figure(line, column, &cost.name)?);
        Some(Dot { candidate, memory, cost })
    };
    panel.lines.iter().enumerate().filter_map(dot).collect()
}

/// `Memory against throughput at 16 threads`.
fn title(panel: &Panel, column: usize, cost: &Metric) -> String {
    let against = match &*cost.name {
        "throughput" => "throughput",
        "cpu" => "processor time",
        "p99" => "latency",
        _ => "time",
    };
    match panel.axis {
        Axis::Program => format!("Memory against {against}"),
        axis => format!("Memory against {against} at {}", words::column(axis, panel.columns[column])),
    }
}

/// The name of the horizontal axis.
fn name(cost: &Metric) -> &'static str {
    match &*cost.name {
        "throughput" => "operations a second",
        "wall" => "time from start to end, or of the load",
        "time" => "time in which the operations were done",
        "per_op" => "time of an operation",
        "p99" => "99 % of operations take at most this",
        _ => "processor time",
    }
}

struct Scales {
    memory: AxisScale,
    cost: AxisScale,
    more_is_better: bool,
}

impl Scales {
    fn place(&self, memory: f64, cost: f64) -> (f64, f64) {
        Canvas::place(self.cost.share(cost), self.memory.share(memory))
    }

    /// The place on a sheet, mirrored if needed, so that the right side is always the better side.
    fn turned(&self, (x, y): (f64, f64)) -> (f64, f64) {
        (if self.more_is_better { x } else { FIELD.0 + FIELD.2 - x }, y)
    }
}

fn draw(canvas: &Canvas, scales: &Scales, dots: &[Dot], best: &[usize], texts: &[String], axis: &str) {
    canvas.level(&scales.cost, axis);
    canvas.upright(&scales.memory);
    let places: Vec<(f64, f64)> = dots.iter().map(|dot| scales.place(dot.memory.median, dot.cost.median)).collect();
    let corners: Vec<(f64, f64)> = best.iter().map(|at| scales.turned(places[*at])).collect();
    let edge: Vec<(f64, f64)> = stairs(&corners).into_iter().map(|place| scales.turned(place)).collect();
    canvas.dashes(&edge, palette::MUTED, 1.5);
    for Dot { candidate, memory, cost } in dots {
        let color = palette::color(*candidate);
        canvas.thin(&[scales.place(memory.low, cost.median), scales.place(memory.high, cost.median)], color);
        canvas.thin(&[scales.place(memory.median, cost.low), scales.place(memory.median, cost.high)], color);
    }
    let labels = labels::place(&places, texts);
    for (label, place) in labels.iter().zip(&places).filter(|(label, _)| label.is_far) {
        canvas.line(&[*place, label.edge(*place)], palette::MUTED, 0.75);
    }
    for (dot, place) in dots.iter().zip(&places) {
        canvas.mark(dot.candidate, *place, 6.5);
    }
    for label in &labels {
        for (at, line) in label.lines.iter().enumerate() {
            canvas.word(line, (label.at.0, label.at.1 + at as f64 * LINE), Side::Left, palette::INK);
        }
    }
}

/// The edge of the region that the front beats. It goes from the left edge through each point in turn, and from the last point to the top.
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
}
