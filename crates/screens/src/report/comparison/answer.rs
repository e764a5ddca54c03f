//! The answers of a comparison: one for each gate, or one for everything if there is no gate. In: a judgement. Out: answers. Those about
//! failures come first.

use allocanary_measure::metrics::Better;
use allocanary_measure::summary::{Judged, Judgement, MetricLimit, RowComparison, Verdict};
use allocanary_text::units::show_share;
use serde_json::{Value, json};

use crate::draw::{Answer, object};
use crate::report::answer::compared;
use crate::report::words;

/// One answer for each gate that fails or is undecided, one for each gate that passes, and one for each loss. Without gates one
/// answer says what got worse. `undecided_passes` is the user's choice for gates that the samples do not decide.
pub fn answers(judgement: &Judgement, undecided_passes: bool) -> Vec<Answer> {
    if !judgement.has_gates() {
        return vec![without_gates(judgement)];
    }
    let mut all = Vec::new();
    for (gate, one) in judgement.judged(Judged::Broken) {
        all.push(of_gate("failed", format!("gate failed: {}: {}", figure(gate, one), one.key.title()), gate, one));
    }
    for (what, why) in &judgement.lost {
        let facts = json!({ "choice": "failed", "of": what, "lost": why });
        all.push(answer(format!("gate failed: {what}: {why}"), facts));
    }
    for (gate, one) in judgement.judged(Judged::Undecided) {
        let so = if undecided_passes { ", let through" } else { ", and so failed" };
        let text =
            format!("gate undecided{so}: {}: {}; {}", figure(gate, one), one.key.title(), gate.more(&one.comparison));
        all.push(of_gate("undecided", text, gate, one));
    }
    let mut passed: Vec<(&MetricLimit, Vec<&RowComparison>)> = Vec::new();
    for (gate, one) in judgement.judged(Judged::Holds) {
        match passed.iter_mut().find(|(known, _)| name(known) == name(gate)) {
            Some((_, here)) => here.push(one),
            None => passed.push((gate, vec![one])),
        }
    }
    for (gate, here) in passed {
        let worsening =
            |one: &&&RowComparison| one.comparison.worsening(gate.metric.better).map_or(0.0, |(_, most)| most);
        let Some(worst) = here.iter().max_by(|a, b| worsening(a).total_cmp(&worsening(b))) else { continue };
        let which = match here.len() {
            1 => String::new(),
            several => format!(", the nearest to the limit of {several}: {}", worst.key.title()),
        };
        all.push(of_gate("passed", format!("gate passed: {}{which}", figure(gate, worst)), gate, worst));
    }
    all
}

/// `peak -0.3 % [-1.1, +0.4], limit +5 %`.
fn figure(gate: &MetricLimit, one: &RowComparison) -> String {
    let sign = if gate.metric.better == Better::Higher { '-' } else { '+' };
    format!("{} {}, limit {sign}{}", one.figure(), words::with_interval(&one.comparison), show_share(gate.most))
}

/// `peak`, or `peak_resident.p90`.
fn name(gate: &MetricLimit) -> String {
    gate.quantile.map_or_else(|| gate.metric.name.to_string(), |q| format!("{}.p{:.0}", gate.metric.name, q * 100.0))
}

fn of_gate(choice: &str, text: String, gate: &MetricLimit, one: &RowComparison) -> Answer {
    let facts = json!({
        "choice": choice, "gate": name(gate), "limit": gate.most, "of": one.key.title(), "found": compared(&one.comparison),
    });
    answer(text, facts)
}

fn answer(text: String, facts: Value) -> Answer {
    Answer { text, pasted: None, facts: object(facts) }
}

/// What got worse, the largest change first.
fn without_gates(judgement: &Judgement) -> Answer {
    const SHOWN: usize = 3;
    let mut worse: Vec<&RowComparison> =
        judgement.compared.iter().filter(|one| one.comparison.verdict == Verdict::Worse).collect();
    let by = |one: &RowComparison| (one.comparison.ratio().ln()).abs();
    worse.sort_by(|a, b| by(b).total_cmp(&by(a)));
    let all = judgement.compared.len();
    let named: Vec<String> = worse
        .iter()
        .take(SHOWN)
        .map(|one| format!("{}: {}", one.title(), words::with_interval(&one.comparison)))
        .collect();
    let more = if worse.len() > SHOWN { format!("; and {} more", worse.len() - SHOWN) } else { String::new() };
    let count = |verdict| judgement.compared.iter().filter(|one| one.comparison.verdict == verdict).count();
    let text = match worse.len() {
        0 if count(Verdict::Undecided) > 0 => {
            format!("Nothing is shown to be worse: of {all} comparisons {} are undecided.", count(Verdict::Undecided))
        }
        0 => format!("Nothing got worse in {all} comparisons."),
        some => format!("Worse in {some} of {all} comparisons: {}{more}.", named.join("; ")),
    };
    let counts: serde_json::Map<String, Value> =
        super::KINDS.iter().map(|verdict| (verdict.text().to_string(), json!(count(*verdict)))).collect();
    answer(text, json!({ "choice": "compared", "counts": counts }))
}
