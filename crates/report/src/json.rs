//! `json`: the answers, then every figure, for a script. In: findings. Out: JSON with plain numbers in base units. Keys are only ever
//! added; `schema` changes if one changes its meaning.
//!
//! `answers` has one entry for each panel: `choice` is `take` (run `candidate`), `keep` (keep it: it is the first, and nothing is surely
//! better within the limits), `alone` (there is no other), `unknown` (`missing` is limited and the rows
//! do not have it), or `no_first` (the first candidate has no figure, so that nothing can be compared).

use allocanary_kernel::terminal::Look;
use allocanary_study::summary::{
    Choice, Comparison, Estimate, Findings, Line, Name, Panel, Point, Recommendation, Section,
};
use serde_json::{Map, Value, json};

use crate::format::ReportFormat;
use crate::{answer, words};

/// The report.
pub const REPORT: ReportFormat =
    ReportFormat { name: "json", about: "the answers and every figure, for a script", render };

fn render(findings: &Findings, _look: &Look) -> String {
    let panels =
        || findings.sections.iter().flat_map(|section| section.panels.iter().map(move |panel| (section, panel)));
    let decided = findings.sections.iter().filter_map(|section| section.about.decided.as_ref());
    let decided = decided.map(|(text, lines)| json!({ "choice": "search", "text": text, "lines": lines }));
    let open = panels().filter(|(section, _)| section.about.decided.is_none());
    let answers: Vec<Value> = decided.chain(open.filter_map(|(section, panel)| of_panel(section, panel))).collect();
    let page = json!({
        "schema": 1,
        "answers": answers,
        "panels": panels().map(|(section, panel)| figures(section, panel)).collect::<Vec<_>>(),
        "rows": findings.rows,
        "troubles": words::troubles(findings),
    });
    format!("{page:#}\n")
}

fn of_panel(section: &Section, panel: &Panel) -> Option<Value> {
    let found = Recommendation::of(section, panel)?;
    let candidate = found.line().map(|line| panel.lines[line].name());
    let (choice, missing) = match &found.choice {
        Choice::Take(_) => ("take", None),
        Choice::Keep => ("keep", None),
        Choice::Alone => ("alone", None),
        Choice::Unknown(name) => ("unknown", Some(name)),
        Choice::NoFirst => ("no_first", None),
    };
    let saving = found.line().and_then(|line| found.saving(panel, line)).map(compared);
    let price: Map<String, Value> = match found.choice {
        Choice::Take(line) => {
            found.price(panel, line).into_iter().map(|(name, one)| (name.into(), compared(one))).collect()
        }
        _ => Map::new(),
    };
    let figure = found.line().and_then(|line| found.estimate(panel, line)).map(|estimate| estimate.median);
    let failing: Vec<String> = found.failing.iter().map(|line| panel.lines[*line].name()).collect();
    Some(json!({
        "study": section.name, "panel": panel.title, "axis": panel.axis.name(), "at": panel.columns[found.column],
        "choice": choice, "candidate": candidate, "missing": missing,
        "metric": found.metric.name, "unit": found.metric.unit.name(), "figure": figure,
        "against": panel.lines[0].name(), "saving": saving, "price": price,
        "within": section.within.iter().map(|(name, share)| (name.clone(), json!(share))).collect::<Map<_, _>>(),
        "left_out": failing,
        "lines": answer::of_panel(section, panel).map_or(Vec::new(), |pasted| pasted.lines),
    }))
}

/// A comparison with the first candidate: ratios of medians.
fn compared(one: &Comparison) -> Value {
    json!({ "verdict": one.verdict.text(), "ratio": one.ratio(), "interval": one.interval, "n": one.n.1 })
}

fn figures(section: &Section, panel: &Panel) -> Value {
    let candidate = |line: &Line| {
        let point = |(at, point): (&u32, &Option<Point>)| {
            let point = point.as_ref()?;
            let metric = |(name, one): (&Name, &Estimate)| {
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
