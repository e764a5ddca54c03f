//! One panel of the page: its answer, its pictures and its tables. In: a panel. Out: a section.

use maud::{Markup, html};

use super::names::CandidateLabels;
use super::tables;
use crate::draw::Picture;
use crate::draw::markup::prose;
use crate::report::pictures;
use crate::report::words;
use allocanary_measure::metrics::Metrics;
use allocanary_measure::summary::{Axis, Panel, StudySection};

/// The panel's title.
pub fn title(panel: &Panel) -> String {
    match panel.axis {
        Axis::Program => panel.title.clone(),
        axis => format!("{}, by {}", panel.title, axis.name()),
    }
}

/// The whole section of the panel, with the figures of all `metrics`. `table` comes after the pictures.
pub fn section(
    place: usize,
    (section, panel): (&StudySection, &Panel),
    metrics: &Metrics,
    names: &CandidateLabels,
    table: Markup,
) -> Markup {
    // A program that ends has no idle moment.
    let mut points = panel.lines.iter().flat_map(|line| line.points.iter().flatten());
    let has_idle = points.any(|point| point.over_time.is_none() || point.get("resident").is_some());
    let pictures = pictures::of(section, panel, &|at, line| names.marked(at, line));
    html! {
        section id={ "panel-" (place) } {
            h2 { (title(panel)) @if let Some(bytes) = words::requested(panel) { " " small { (bytes) " requested" } } }
            @if let Some(text) = words::headline(panel).filter(|_| panel.axis != Axis::Program) { p.lead { (prose(&text)) } }
            // Bars show the candidates' names. Other pictures show a candidate's number.
            @if pictures.iter().any(|picture| picture.is_numbered) { (legend(panel, names)) }
            @if !pictures.is_empty() { div.pictures { @for picture in &pictures { (Picture::figure(picture)) } } }
            (table)
            @if has_idle {
                (tables::memory(panel, names))
                (tables::verdicts(panel, names))
            }
            (tables::cost(panel, names))
            (tables::allocator_counters(panel, names))
            (tables::everything(panel, metrics, names))
        }
    }
}

/// Each candidate's number, mark, name and version. The pictures identify a candidate by its mark and number.
fn legend(panel: &Panel, names: &CandidateLabels) -> Markup {
    // A short legend stays visible while the pictures scroll. A long one would cover them.
    let class = if panel.lines.len() <= 10 { "legend short" } else { "legend" };
    html! {
        ol class=(class) aria-label="Candidates" {
            @for (at, line) in panel.lines.iter().enumerate() {
                li {
                    (crate::draw::palette::swatch(at)) b { (at + 1) } " " (names.name(line)) " "
                    small { (line.version.to_string()) }
                }
            }
        }
    }
}
