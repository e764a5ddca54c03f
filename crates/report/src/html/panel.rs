//! One panel of the page: its answer, its pictures and its tables. In: a panel. Out: a section.

use super::tables;
use crate::markup::{candidate, escaped, prose};
use crate::{pictures, pictures::palette, words};
use allocanary_study::summary::{Axis, Metrics, Panel};

/// The panel's title, as HTML.
pub fn title(panel: &Panel) -> String {
    match panel.axis {
        Axis::Program => escaped(&panel.title),
        axis => format!("{}, by {}", escaped(&panel.title), axis.name()),
    }
}

/// The whole section of the panel, with the figures in all of `metrics`.
pub fn section(place: usize, panel: &Panel, metrics: &Metrics) -> String {
    let live = words::live(panel).map_or(String::new(), |live| format!(" <small>{live} live</small>"));
    let headline =
        words::headline(panel).map_or(String::new(), |text| format!("<p class=\"answer\">{}</p>\n", prose(&text)));
    // A program that ends is never idle.
    let mut points = panel.lines.iter().flat_map(|line| line.points.iter().flatten());
    let has_idle = points.any(|point| point.over_time.is_none() || point.get("rss").is_some());
    let pictures: String = pictures::of(panel).iter().map(pictures::Picture::figure).collect();
    let pictures = if pictures.is_empty() { pictures } else { format!("<div class=\"pictures\">\n{pictures}</div>\n") };
    format!(
        "<section id=\"panel-{place}\">\n<h2>{}{live}</h2>\n{headline}{}{pictures}{}{}{}{}{}</section>\n",
        title(panel),
        legend(panel),
        if has_idle { tables::memory(panel) } else { String::new() },
        if has_idle { tables::verdicts(panel) } else { String::new() },
        tables::price(panel),
        tables::money(panel),
        tables::everything(panel, metrics),
    )
}

/// Each candidate's number, mark, name and version. The pictures show a candidate by its mark and number.
fn legend(panel: &Panel) -> String {
    let entry = |(at, line): (usize, &allocanary_study::summary::Line)| {
        let (number, mark) = (at + 1, palette::swatch(at));
        let (name, version) = (candidate(&line.name()), escaped(&line.version.to_string()));
        format!("<li>{mark}<b>{number}</b> <code>{name}</code> <small>{version}</small></li>\n")
    };
    let entries: String = panel.lines.iter().enumerate().map(entry).collect();
    if entries.is_empty() {
        return entries;
    }
    // A short legend stays visible while the pictures scroll. A long one would cover them.
    let short = if panel.lines.len() <= 10 { " short" } else { "" };
    format!("<ol class=\"legend{short}\" aria-label=\"Candidates\">\n{entries}</ol>\n")
}
