//! A comparison for a script. In: a judgement and its answers. Out: JSON.

use allocanary_measure::summary::{Judgement, RowComparison};
use serde_json::{Value, json};

use crate::draw::{Answer, document, object};
use crate::report::answer::compared;

/// The answers, whether the gates pass (null without gates), and every comparison.
pub fn json(judgement: &Judgement, answers: &[Answer], passes: bool) -> String {
    let one = |one: &RowComparison| {
        json!({
            "metric": one.figure(), "unit": one.metric.unit.name(), "of": one.key.title(),
            "candidate": one.key.candidate.to_string(), "workload": one.key.workload,
            "threads": one.key.threads, "cores": one.key.cores,
            "old": one.comparison.old, "new": one.comparison.new, "found": compared(&one.comparison),
        })
    };
    let [old, new] = &judgement.notes;
    let besides = json!({
        "passed": if judgement.has_gates() { Value::from(passes) } else { Value::Null },
        "comparisons": judgement.compared.iter().map(one).collect::<Vec<_>>(),
        "only_new": judgement.only_new, "differs": judgement.differs,
        "notes": { "old": old, "new": new },
    });
    document("compare", answers, object(besides))
}
