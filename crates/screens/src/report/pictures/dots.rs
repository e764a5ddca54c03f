//! Latency: a row of quantiles for each candidate. In: a panel. Out: a picture.

use super::figure;
use crate::draw::canvas::{Canvas, Side};
use crate::draw::scale::AxisScale;
use crate::draw::{Picture, palette};
use crate::report::words;
use allocanary_measure::summary::{MedianEstimate, Panel};
use allocanary_text::units::Unit;

/// The quantiles at one column.
pub fn latency(panel: &Panel, column: usize) -> Option<Picture> {
    let quantiles = |line| ["p50", "p99", "p999"].iter().filter_map(|metric| figure(line, column, metric)).collect();
    let rows: Vec<Vec<MedianEstimate>> = panel.lines.iter().map(quantiles).collect();
    let values = rows.iter().flatten().flat_map(|found| [found.low, found.median, found.high]);
    // A single quantile is shown by the bars or lines instead.
    if rows.iter().all(|row| row.len() < 2) {
        return None;
    }
    let scale = AxisScale::log(Unit::Nanoseconds, values);
    let title = format!("Latency at {}", words::column(panel.axis, panel.columns[column]));
    let drawing = Canvas::paint(&title, |canvas| draw(canvas, &scale, &rows));
    let caption = "In each row from left to right: what 50 %, 99 % and 99.9 % of operations take at most, with 95 % \
                   intervals; less is better.";
    Some(Picture { title, drawing, caption: format!("{caption}{}", scale.note()), is_numbered: true })
}

fn draw(canvas: &Canvas, scale: &AxisScale, rows: &[Vec<MedianEstimate>]) {
    canvas.level(scale, "duration of an operation");
    for (candidate, row) in rows.iter().enumerate() {
        let up = 1.0 - (candidate as f64 + 0.5) / rows.len() as f64;
        let place = |value: f64| Canvas::place(scale.share(value), up);
        canvas.word(
            &(candidate + 1).to_string(),
            (Canvas::place(0.0, up).0 - 8.0, place(0.0).1),
            Side::Right,
            palette::INK,
        );
        let medians: Vec<(f64, f64)> = row.iter().map(|found| place(found.median)).collect();
        canvas.line(&medians, palette::MUTED, 1.0);
        for found in row {
            canvas.interval(place(found.low), place(found.high), palette::color(candidate));
        }
        for place in medians {
            canvas.mark(candidate, place, 5.5);
        }
    }
}
