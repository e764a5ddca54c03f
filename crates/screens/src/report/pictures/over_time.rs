//! A program's resident memory over time, one line for each candidate. In: a panel. Out: a picture.

use crate::draw::canvas::{Canvas, Side, spread};
use crate::draw::scale::AxisScale;

use crate::draw::{Picture, palette};
use crate::report::words;
use allocanary_measure::summary::{Axis, Panel};
use allocanary_text::units::Unit;

/// The memory over time at one column; `None` if no row has it.
pub fn over_time(panel: &Panel, column: usize) -> Option<Picture> {
    let runs: Vec<(usize, Vec<(f64, f64)>)> = panel
        .lines
        .iter()
        .enumerate()
        .filter_map(|(at, line)| {
            let run = line.points.get(column)?.as_ref()?.over_time.as_ref()?;
            let step = run.every_us as f64;
            let place = |(at, kib): (usize, &u64)| (at as f64 * step, *kib as f64 * 1024.0);
            Some((at, run.resident_kib.iter().enumerate().map(place).collect()))
        })
        .filter(|(_, run): &(usize, Vec<(f64, f64)>)| !run.is_empty())
        .collect();
    if runs.is_empty() {
        return None;
    }
    let time =
        AxisScale::linear(Unit::Microseconds, runs.iter().flat_map(|(_, run)| run.iter().map(|(time, _)| *time)));
    let rss = AxisScale::linear(Unit::Bytes, runs.iter().flat_map(|(_, run)| run.iter().map(|(_, rss)| *rss)));
    let title = match panel.axis {
        Axis::Program => "Resident memory over time".to_string(),
        axis => format!("Resident memory over time, {}", words::column(axis, panel.columns[column])),
    };
    let drawing = Canvas::paint(&title, |canvas| {
        canvas.level(&time, "time since the start");
        canvas.upright(&rss);
        let mut ends = Vec::new();
        for (candidate, run) in &runs {
            let places: Vec<(f64, f64)> =
                run.iter().map(|(at, bytes)| Canvas::place(time.share(*at), rss.share(*bytes))).collect();
            canvas.line(&places, palette::color(*candidate), 2.0);
            ends.extend(places.last().map(|place| (*candidate, *place)));
        }
        let heights = spread(&ends.iter().map(|(_, place)| place.1).collect::<Vec<_>>(), 16.0);
        let right = Canvas::place(1.0, 0.0).0;
        for ((candidate, place), height) in ends.iter().zip(heights) {
            canvas.line(&[*place, (right + 6.0, height)], palette::color(*candidate), 0.5);
            canvas.word(&(candidate + 1).to_string(), (right + 10.0, height), Side::Left, palette::INK);
        }
    });
    let caption = "All processes of the program, sampled from outside: of each candidate the run with the median peak.";
    Some(Picture { title, drawing, caption: caption.into(), is_numbered: true })
}
