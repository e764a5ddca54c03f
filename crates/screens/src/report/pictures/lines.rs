//! Line charts: a figure from column to column, or from moment to moment. In: a panel. Out: pictures.

use super::figure;
use crate::draw::canvas::{Canvas, Side, spread};
use crate::draw::scale::{AxisScale, column_shares};
use crate::draw::{Picture, palette};
use crate::report::words;
use allocanary_measure::metrics::metric_of_all;
use allocanary_measure::summary::{Axis, MedianEstimate, Panel};
use allocanary_text::units::Unit;

/// The moments at which resident memory is read, with the metric of each.
const MOMENTS: [(&str, &str); 7] = [
    ("start", "resident_start"),
    ("ready", "resident_ready"),
    ("filled", "resident_filled"),
    ("peak", "resident_peak"),
    ("idle", "resident"),
    ("released", "resident_released"),
    ("purged", "resident_purged"),
];

/// The estimates of each candidate at each label of the axis.
struct Chart<'a> {
    title: String,
    feet: Vec<(f64, String)>,
    axis: &'a str,
    series: Vec<Vec<Option<MedianEstimate>>>,
    /// The highest requested bytes at each label: no candidate can have less memory.
    floor: Vec<Option<f64>>,
    scale: AxisScale,
}

/// Resident memory when idle from column to column.
pub fn memory(panel: &Panel) -> Option<Picture> {
    let mut chart = by_column(panel, "resident", "Resident memory when idle", fitting)?;
    chart.floor = (0..panel.columns.len())
        .map(|at| panel.lines.iter().filter_map(|line| Some(figure(line, at, "requested")?.median)).reduce(f64::max))
        // A service that does not report its requested bytes has no lower bound.
        .map(|floor| floor.filter(|bytes| *bytes > 0.0))
        .collect();
    let floor: Vec<f64> = chart.floor.iter().flatten().copied().collect();
    chart.scale = AxisScale::fitting(Unit::Bytes, &figures(&chart.series), &floor);
    let caption = "Medians with their 95 % intervals; less is better.";
    let about_floor = if floor.is_empty() { "" } else { " The broken line is what the service has requested." };
    Some(chart.picture(&format!("{caption}{about_floor}")))
}

/// Throughput from column to column.
pub fn throughput(panel: &Panel) -> Option<Picture> {
    let chart = by_column(panel, "throughput", "Throughput", fitting)?;
    Some(chart.picture("Operations in a second: medians with their 95 % intervals; more is better."))
}

/// The 99th percentile of latency from column to column.
pub fn latency(panel: &Panel) -> Option<Picture> {
    let log = |unit, figures: &[Vec<f64>]| AxisScale::log(unit, figures.iter().flatten().copied());
    let chart = by_column(panel, "p99", "Latency, 99th percentile", log)?;
    Some(chart.picture("99 % of operations take at most this: medians with their 95 % intervals; less is better."))
}

/// Resident memory from moment to moment at one column, at the moments that have figures; `None` for fewer than two.
pub fn moments(panel: &Panel, column: usize) -> Option<Picture> {
    let read = |metric: &str| {
        panel.lines.iter().map(|line| figure(line, column, metric)).collect::<Vec<Option<MedianEstimate>>>()
    };
    let moments: Vec<(&str, Vec<Option<MedianEstimate>>)> =
        MOMENTS.iter().map(|(name, metric)| (*name, read(metric))).collect();
    let moments: Vec<_> = moments.into_iter().filter(|(_, found)| found.iter().any(Option::is_some)).collect();
    let step = 1.0 / (moments.len().checked_sub(2)? + 1) as f64;
    let series: Vec<Vec<Option<MedianEstimate>>> =
        (0..panel.lines.len()).map(|line| moments.iter().map(|(_, found)| found[line]).collect()).collect();
    let chart = Chart {
        title: match panel.axis {
            Axis::Program => "Resident memory over a run".to_string(),
            axis => format!("Resident memory over a run at {}", words::column(axis, panel.columns[column])),
        },
        feet: moments.iter().enumerate().map(|(at, (name, _))| (inset(at as f64 * step), name.to_string())).collect(),
        axis: "moment",
        scale: fitting(Unit::Bytes, &figures(&series)),
        series,
        floor: Vec::new(),
    };
    let meanings = [
        ("ready", "Ready: the service answers."),
        ("filled", "Filled: the live set is built."),
        ("released", "Released: all is freed."),
        ("purged", "Purged: the allocator was told to give back."),
    ];
    let shown = meanings.iter().filter(|(moment, _)| moments.iter().any(|(name, _)| name == moment));
    let meanings: String = shown.map(|(_, meaning)| format!(" {meaning}")).collect();
    Some(chart.picture(&format!("Medians with their 95 % intervals.{meanings}")))
}

fn by_column<'a>(
    panel: &'a Panel,
    metric: &str,
    title: &str,
    scale: impl Fn(Unit, &[Vec<f64>]) -> AxisScale,
) -> Option<Chart<'a>> {
    let columns = 0..panel.columns.len();
    let series: Vec<Vec<Option<MedianEstimate>>> =
        panel.lines.iter().map(|line| columns.clone().map(|at| figure(line, at, metric)).collect()).collect();
    let shares = column_shares(&panel.columns).into_iter().map(inset);
    let chart = Chart {
        title: match panel.axis {
            Axis::Program => title.to_string(),
            axis => format!("{title}, by {}", axis.name()),
        },
        feet: shares.zip(&panel.columns).map(|(share, value)| (share, foot(panel.axis, *value))).collect(),
        axis: panel.axis.name(),
        scale: scale(metric_of_all(metric).unit, &figures(&series)),
        series,
        floor: Vec::new(),
    };
    chart.has_figures().then_some(chart)
}

/// A column's label.
fn foot(axis: Axis, value: u32) -> String {
    if axis == Axis::Program { words::column(axis, value) } else { value.to_string() }
}

/// Moves the outermost labels away from the field's edges.
fn inset(share: f64) -> f64 {
    0.05 + 0.9 * share
}

fn fitting(unit: Unit, figures: &[Vec<f64>]) -> AxisScale {
    AxisScale::fitting(unit, figures, &[])
}

fn figures(series: &[Vec<Option<MedianEstimate>>]) -> Vec<Vec<f64>> {
    series
        .iter()
        .map(|line| line.iter().flatten().flat_map(|found| [found.low, found.median, found.high]).collect())
        .collect()
}

impl Chart<'_> {
    fn has_figures(&self) -> bool {
        self.series.iter().flatten().any(Option::is_some)
    }

    fn picture(self, caption: &str) -> Picture {
        let drawing = Canvas::paint(&self.title, |canvas| self.draw(canvas));
        Picture { drawing, caption: format!("{caption}{}", self.scale.note()), title: self.title, is_numbered: true }
    }

    fn place(&self, at: usize, value: f64) -> (f64, f64) {
        Canvas::place(self.feet[at].0, self.scale.share(value))
    }

    /// The place of a candidate's value. It has a small horizontal offset, because intervals at the same place would
    /// hide each other.
    fn beside(&self, candidate: usize, at: usize, value: f64) -> (f64, f64) {
        let count = self.series.len() as f64;
        let (x, y) = self.place(at, value);
        (x + (candidate as f64 - (count - 1.0) / 2.0) * (24.0 / count).min(4.0), y)
    }

    fn draw(&self, canvas: &Canvas) {
        canvas.upright(&self.scale);
        canvas.feet(&self.feet, self.axis);
        let floor = self.floor.iter().enumerate().filter_map(|(at, value)| Some(self.place(at, (*value)?)));
        let floor: Vec<(f64, f64)> = floor.collect();
        canvas.dashes(&floor, palette::MUTED, 1.5);
        for (candidate, line) in self.series.iter().enumerate() {
            let color = palette::color(candidate);
            // A missing figure leaves a gap in the line.
            for run in line.iter().enumerate().collect::<Vec<_>>().split(|(_, found)| found.is_none()) {
                let places: Vec<_> = run
                    .iter()
                    .filter_map(|(at, found)| Some(self.beside(candidate, *at, found.as_ref()?.median)))
                    .collect();
                canvas.line(&places, color, 2.0);
            }
            for (at, found) in line.iter().enumerate().filter_map(|(at, found)| Some((at, found.as_ref()?))) {
                canvas.interval(self.beside(candidate, at, found.low), self.beside(candidate, at, found.high), color);
            }
        }
        for (candidate, line) in self.series.iter().enumerate() {
            for (at, found) in line.iter().enumerate().filter_map(|(at, found)| Some((at, found.as_ref()?))) {
                canvas.mark(candidate, self.beside(candidate, at, found.median), 5.0);
            }
        }
        self.number(canvas);
    }

    /// Each line's number in the legend, to the right of its end.
    fn number(&self, canvas: &Canvas) {
        let Some(last) = self.feet.len().checked_sub(1) else { return };
        let median = |at: usize, line: &[Option<MedianEstimate>]| Some(self.beside(at, last, line[last]?.median));
        let ends: Vec<(usize, (f64, f64))> =
            self.series.iter().enumerate().filter_map(|(at, line)| Some((at, median(at, line)?))).collect();
        let heights = spread(&ends.iter().map(|(_, place)| place.1).collect::<Vec<_>>(), 16.0);
        let right = Canvas::place(1.0, 0.0).0;
        for ((candidate, place), height) in ends.iter().zip(heights) {
            canvas.line(&[(place.0 + 8.0, place.1), (right + 6.0, height)], palette::color(*candidate), 1.0);
            canvas.word(&(candidate + 1).to_string(), (right + 10.0, height), Side::Left, palette::INK);
        }
    }
}
