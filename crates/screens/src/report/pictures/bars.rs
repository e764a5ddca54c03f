//! Bars: one figure of each candidate, if there is one column. In: a panel. Out: pictures, one for each metric.
//!
//! The bars are elements of the page, not a drawing, so that their names have the size of the page's text on every
//! screen.

use maud::{Markup, html};

use super::{CandidateName, figure};
use crate::draw::Picture;
use crate::report::words;
use allocanary_measure::metrics::{Better, Metric, metric_of_all};
use allocanary_measure::summary::{COST, MedianEstimate, Panel, StudySection};
use allocanary_text::units::Unit;

/// The maximum of pictures in one panel.
const MOST: usize = 6;

/// Bars for the metrics of the study. If it names none, for memory, throughput, latency and processor time. Only metrics with figures have
/// bars.
pub fn all(section: &StudySection, panel: &Panel, taken: Option<usize>, named: CandidateName) -> Vec<Picture> {
    let mut metrics: Vec<&Metric> =
        section.about.metrics.iter().filter(|metric| metric.better != Better::Neither).collect();
    if metrics.is_empty() {
        metrics.extend(["resident"].into_iter().chain(COST).map(|name| -> &Metric { metric_of_all(name) }));
    }
    metrics.into_iter().filter_map(|metric| bars(panel, metric, taken, named)).take(MOST).collect()
}

/// The bars of one metric; `None` if no candidate has a figure, or all of them are 0.
fn bars(panel: &Panel, metric: &Metric, taken: Option<usize>, named: CandidateName) -> Option<Picture> {
    let found: Vec<Option<MedianEstimate>> = panel.lines.iter().map(|line| figure(line, 0, &metric.name)).collect();
    let most = found.iter().flatten().map(|one| one.high.max(one.median)).fold(0.0, f64::max);
    if most <= 0.0 {
        return None;
    }
    let row = |at: usize, found: &Option<MedianEstimate>| -> Markup {
        let class = if taken == Some(at) { "row taken" } else { "row" };
        html! {
            li class=(class) {
                span.of { (named(at, &panel.lines[at])) }
                span.figure {
                    @if let Some(found) = found { (words::median(metric, Some(found))) } @else { "-" }
                }
                @if let Some(found) = found { (bar(found, most)) }
            }
        }
    };
    let best = if metric.better == Better::Higher { "more" } else { "less" };
    let taken = taken.filter(|at| found[*at].is_some()).map_or("", |_| " The answer is drawn in colour.");
    Some(Picture {
        title: title(metric),
        drawing: html! { ul.bars { @for (at, found) in found.iter().enumerate() { (row(at, found)) } } },
        caption: format!("Medians; the thin line is the 95 % interval; {best} is better.{taken}"),
        is_numbered: false,
    })
}

/// A bar with its interval, in shares of the longest one.
fn bar(found: &MedianEstimate, most: f64) -> Markup {
    let share = |value: f64| (value / most).clamp(0.0, 1.0) * 100.0;
    let (low, high) = (share(found.low), share(found.high));
    html! {
        span.track aria-hidden="true" {
            i.bar style={ "width:" (format!("{:.2}", share(found.median))) "%" } {}
            @if high > low {
                i.interval style={ "left:" (format!("{low:.2}")) "%;width:" (format!("{:.2}", high - low)) "%" } {}
            }
        }
    }
}

/// `Peak: most resident memory at any time`.
fn title(metric: &Metric) -> String {
    let name = match &*metric.name {
        "resident" => "Resident memory when idle".to_string(),
        "throughput" => "Throughput".to_string(),
        "p99" => "Latency, 99th percentile".to_string(),
        "cpu" => "Processor time".to_string(),
        name => {
            let about = metric.about.split(';').next().unwrap_or_default();
            if about.is_empty() { name.to_string() } else { format!("{name}: {about}") }
        }
    };
    if metric.unit == Unit::PerSecond && metric.name == "throughput" {
        format!("{name}, operations a second")
    } else {
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(median: f64) -> MedianEstimate {
        MedianEstimate { n: 5, median, low: median * 0.5, high: median * 1.25, spread: 0.0 }
    }

    #[test]
    fn a_bar_is_as_long_as_its_share_of_the_longest() {
        let drawn = bar(&estimate(4.0), 8.0).into_string();
        assert!(drawn.contains("width:50.00%") && drawn.contains("left:25.00%;width:37.50%"), "{drawn}");
        let sure = MedianEstimate { low: 4.0, high: 4.0, ..estimate(4.0) };
        assert!(!bar(&sure, 8.0).into_string().contains("interval"), "nothing to draw");
    }
}
