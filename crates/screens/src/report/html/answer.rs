//! The answer, before anything else: what to take, its figure, its cost, and the lines that configure a program accordingly. In:
//! findings. Out: a section; empty without an answer.

use maud::{Markup, html};

use crate::draw::markup::{candidate, prose};
use crate::report::{answer, words};
use allocanary_measure::summary::{Findings, GroupComparison, Recommendation, RecommendedStep, Verdict};

/// The section.
pub fn section(findings: &Findings) -> Markup {
    let sentences = answer::sentences(findings);
    html! {
        @if !sentences.is_empty() {
            section #answer aria-label="Answer" {
                (figures(findings))
                @for text in &sentences { p.answer { (prose(text)) } }
                @for pasted in answer::pasted(findings) {
                    h3 { (prose(&pasted.heading)) }
                    pre { (pasted.lines.join("\n")) }
                    @if let Some(note) = pasted.note { p.note { (prose(&note)) } }
                }
            }
        }
    }
}

/// The figures of the candidate to take: what it saves, and what that costs. They are shown only if the whole page has one answer.
fn figures(findings: &Findings) -> Markup {
    let [section] = findings.sections.as_slice() else { return html! {} };
    let ([panel], None) = (section.panels.as_slice(), &section.about.decided) else { return html! {} };
    let Some(found) = Recommendation::of(section, panel) else { return html! {} };
    let RecommendedStep::Take(at) = found.choice else { return html! {} };
    let figure = |line: usize| words::median(&found.metric, found.estimate(panel, line));
    html! {
        ul.figures {
            li {
                b { (figure(at)) }
                span { (found.metric.name) ", instead of " (figure(0)) " with " code { (candidate(&panel.lines[0].name())) } }
            }
            @if let Some(saving) = found.saving(panel, at) { (change(&found.metric.name, saving)) }
            @for (name, cost) in found.cost(panel, at) { (change(name, cost)) }
        }
    }
}

/// `-85 %`, and below it the metric, its interval and the verdict.
fn change(metric: &str, compared: &GroupComparison) -> Markup {
    let (class, figure) = match compared.verdict {
        Verdict::Better => ("better", words::change(compared.ratio())),
        Verdict::Worse => ("worse", words::change(compared.ratio())),
        other => ("none", other.text().to_string()),
    };
    let interval = words::changed(compared);
    let interval = interval.split_once(" [").map_or(String::new(), |(_, rest)| format!(" [{rest}"));
    html! {
        li { b class=(class) { (prose(&figure)) } span { (metric) (prose(&interval)) } }
    }
}
