//! `json`: the answers, then every figure, for a script. In: findings. Out: JSON with plain numbers in base units. New keys may be
//! added at any time. `schema` changes if a key changes its meaning. [`answer`](crate::report::answer) describes an answer's keys.

use allocanary_measure::metrics::MetricName;
use allocanary_measure::summary::{CandidatePoints, Findings, MedianEstimate, Panel, Point, StudySection};
use allocanary_text::outside::TerminalStyle;
use serde_json::{Map, Value, json};

use crate::draw::{document, object};
use crate::report::answer::answers;
use crate::report::format::ReportFormat;
use crate::report::words;

/// The report.
pub const REPORT: ReportFormat =
    ReportFormat { name: "json", about: "the answers and every figure, for a script", render };

fn render(findings: &Findings, _look: &TerminalStyle) -> String {
    of("report", findings)
}

/// The same report, with the name of the verb that prints it.
pub fn of(verb: &str, findings: &Findings) -> String {
    let panels = findings.sections.iter().flat_map(|section| section.panels.iter().map(move |panel| (section, panel)));
    let besides = json!({
        "panels": panels.map(|(section, panel)| figures(section, panel)).collect::<Vec<_>>(),
        "rows": findings.rows,
        "troubles": words::troubles(findings),
    });
    document(verb, &answers(findings), object(besides))
}

fn figures(section: &StudySection, panel: &Panel) -> Value {
    let candidate = |line: &CandidatePoints| {
        let point = |(at, point): (&u32, &Option<Point>)| {
            let point = point.as_ref()?;
            let metric = |(name, one): (&MetricName, &MedianEstimate)| {
                (
                    name.to_string(),
                    json!({ "median": one.median, "interval": one.interval(), "spread": one.spread, "n": one.n }),
                )
            };
            let metrics: Map<String, Value> = point.estimates.iter().map(metric).collect();
            Some(json!({ "at": at, "failed": point.failed, "metrics": metrics }))
        };
        let points: Vec<Value> = panel.columns.iter().zip(&line.points).filter_map(point).collect();
        json!({ "candidate": line.name(), "version": line.version.to_string(), "points": points })
    };
    let candidates: Vec<Value> = panel.lines.iter().map(candidate).collect();
    json!({ "study": section.name, "panel": panel.title, "axis": panel.axis.name(), "candidates": candidates })
}
