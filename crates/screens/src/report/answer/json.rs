//! Answers for a script. In: answers. Out: JSON with plain numbers in base units.
//!
//! `choice` says what to do. Its values for `study`, `run`, `replay` and `tune`:
//!
//! - `take`: run `candidate`;
//! - `keep`: keep `candidate`. It is the first, and no other is clearly better within the limits;
//! - `undecided`: there are too few samples for a verdict;
//! - `alone`: there is no other candidate;
//! - `unknown`: the user limits the metric `missing`, and the rows do not have it;
//! - `no_first`: the first candidate has no figure, so nothing can be compared;
//! - `search`: the rows are of a search, whose answer is in its own files.
//!
//! Its values for `compare`: `passed`, `failed`, `undecided`, or `compared` without a gate. For `doctor`: `change` or `keep`.

use crate::draw::object;
use allocanary_measure::summary::{
    Chosen, Decided, GroupComparison, Panel, Recommendation, RecommendedStep, StudySection,
};
use serde_json::{Map, Value, json};

/// The facts of a panel.
pub(super) fn of_panel(section: &StudySection, panel: &Panel, found: &Recommendation) -> Map<String, Value> {
    let candidate = found.line().map(|line| panel.lines[line].name());
    let (choice, missing) = match &found.choice {
        RecommendedStep::Take(_) => ("take", None),
        RecommendedStep::Keep if super::few(panel, found).is_some() => ("undecided", None),
        RecommendedStep::Keep => ("keep", None),
        RecommendedStep::Alone => ("alone", None),
        RecommendedStep::Unknown(name) => ("unknown", Some(name)),
        RecommendedStep::NoFirst => ("no_first", None),
    };
    let saving = found.line().and_then(|line| found.saving(panel, line)).map(compared);
    let cost: Map<String, Value> = match found.choice {
        RecommendedStep::Take(line) => {
            found.cost(panel, line).into_iter().map(|(name, one)| (name.into(), compared(one))).collect()
        }
        _ => Map::new(),
    };
    let figure = found.line().and_then(|line| found.estimate(panel, line)).map(|estimate| estimate.median);
    let failing: Vec<String> = found.failing.iter().map(|line| panel.lines[*line].name()).collect();
    object(json!({
        "study": section.name, "panel": panel.title, "axis": panel.axis.name(), "at": panel.columns[found.column],
        "choice": choice, "candidate": candidate, "missing": missing,
        "metric": found.metric.name, "unit": found.metric.unit.name(), "figure": figure,
        "against": panel.lines[0].name(), "saving": saving, "cost": cost,
        "tolerance": limits(&section.within),
        "left_out": failing,
    }))
}

/// The facts of a search.
pub(super) fn of_search(decided: &Decided) -> Map<String, Value> {
    let Some(Chosen { candidate, against, metric, figure, saving, cost, within }) = &decided.chosen else {
        return object(json!({ "choice": "search" }));
    };
    let cost: Map<String, Value> = cost.iter().map(|(name, one)| (name.clone(), compared(one))).collect();
    object(json!({
        "choice": if candidate == against { "keep" } else { "take" }, "candidate": candidate,
        "metric": metric.name, "unit": metric.unit.name(), "figure": figure,
        "against": against, "saving": saving.as_ref().map(compared), "cost": cost, "tolerance": limits(within),
    }))
}

fn limits(within: &[(String, f64)]) -> Map<String, Value> {
    within.iter().map(|(name, share)| (name.clone(), json!(share))).collect()
}

/// A comparison: the ratio of the medians, or of the quantiles, with its interval.
pub fn compared(one: &GroupComparison) -> Value {
    json!({ "verdict": one.verdict.text(), "ratio": finite(one.ratio()), "interval": one.interval, "n": one.n.1 })
}

/// A ratio for JSON, which has no infinity.
fn finite(ratio: f64) -> Option<f64> {
    Some(ratio).filter(|ratio| ratio.is_finite())
}
