//! A comparison for a pull request or a job's summary. In: a judgement and its answers. Out: GitHub's Markdown.

use allocanary_measure::summary::Judgement;

use crate::draw::Answer;
use crate::report::markdown::escaped;
use crate::report::words;

/// The heading says whether the gates pass. Then the answers, and a table of all comparisons.
pub fn markdown(judgement: &Judgement, answers: &[Answer], passes: bool) -> String {
    let said = match (judgement.has_gates(), passes) {
        (false, _) => "compared",
        (true, true) => "gates passed",
        (true, false) => "gates failed",
    };
    let mut out = format!("## Memory: {said}\n\n");
    answers.iter().for_each(|answer| out.push_str(&format!("- {}\n", escaped(&answer.text))));
    out.push_str("\n| metric | of | old | new | change [95 % interval] | verdict |\n|---|---|--:|--:|--:|---|\n");
    for one in &judgement.compared {
        let (found, show) = (&one.comparison, |value| one.metric.unit.show(value));
        out.push_str(&format!(
            "| {} | {} | {} | {} | {} | {} |\n",
            escaped(&one.figure()),
            escaped(&one.key.title()),
            show(found.old),
            show(found.new),
            words::with_interval(found),
            found.verdict.text()
        ));
    }
    let notes = ["old", "new"].iter().zip(&judgement.notes);
    let notes = notes.flat_map(|(side, notes)| notes.iter().map(move |note| format!("{side}: {note}")));
    let only = judgement.only_new.iter().map(|title| format!("only in the new: {title}"));
    let differs = judgement.differs.iter().map(|line| format!("differs: {line}"));
    let all: Vec<String> = only.chain(differs).chain(notes).map(|line| format!("- {}\n", escaped(&line))).collect();
    if !all.is_empty() {
        out.push_str(&format!("\n{}", all.concat()));
    }
    out
}
