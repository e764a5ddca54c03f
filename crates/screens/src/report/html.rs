//! `html`: one page that begins with the answer, with pictures and every figure. In: findings. Out: HTML. The page fetches
//! nothing.

mod answer;
mod facts;
mod names;
mod panel;
mod study;
mod tables;
mod troubles;

use maud::{Markup, html};

use super::{figures, words};
use crate::draw::HtmlPage;
use crate::draw::markup::prose;
use crate::report::format::ReportFormat;
use allocanary_measure::summary::{Findings, Panel, StudySection};
use allocanary_text::outside::TerminalStyle;
use names::CandidateLabels;

/// The report.
pub const REPORT: ReportFormat =
    ReportFormat { name: "html", about: "one page with pictures that opens offline", render };

/// What the reader must know about every figure.
const METHOD: &str = "Each figure is the median over fresh processes that ran in shuffled order, and the brackets \
                      hold the 95 % interval of that median.";

fn render(findings: &Findings, _look: &TerminalStyle) -> String {
    let question = question(findings);
    let title = match findings.sections.as_slice() {
        [StudySection { name: Some(name), .. }] => format!("{name}: {question}"),
        _ => question.clone(),
    };
    let head = html! {
        (answer::section(findings))
        (facts::list(findings))
        p { (prose(METHOD)) }
        (contents(findings))
    };
    let names = CandidateLabels::of(findings);
    let main = html! {
        (troubles::section(findings))
        (sections(findings, &names))
        (names.footnotes())
    };
    HtmlPage { title: &title, heading: &question, style: "", head, main, foot: foot(findings) }.document()
}

/// The question of the study. Without one: which allocator to take.
fn question(findings: &Findings) -> String {
    let asked =
        |section: &StudySection| Some(section.about.question.trim().to_string()).filter(|text| !text.is_empty());
    match findings.sections.as_slice() {
        [one] => asked(one).unwrap_or_else(|| match one.panels.as_slice() {
            [panel] => format!("Which allocator for {}?", panel.title),
            _ => "Which allocator?".into(),
        }),
        [] => "Which allocator?".into(),
        _ => "Which allocator, case by case?".into(),
    }
}

/// Links to the panels if there are several, grouped by study if there are several studies.
fn contents(findings: &Findings) -> Markup {
    let several = findings.sections.len() > 1;
    let all: Vec<_> = panels(findings).collect();
    let is_first = |at: usize| at == 0 || all[at - 1].0 != all[at].0;
    html! {
        @if all.len() > 1 {
            nav aria-label="Contents" {
                ul {
                    @for (at, (study, section, panel)) in all.iter().enumerate() {
                        @if several && is_first(at) {
                            li { a href={ "#study-" (study) } { b { (figures::heading(section)) } } }
                        }
                        li { a href={ "#panel-" (at) } { (panel::title(panel)) } }
                    }
                }
            }
        }
    }
}

/// Every panel with its section and that section's number.
fn panels(findings: &Findings) -> impl Iterator<Item = (usize, &StudySection, &Panel)> {
    let sections = findings.sections.iter().enumerate();
    sections.flat_map(|(at, section)| section.panels.iter().map(move |panel| (at, section, panel)))
}

/// Each study's panels, after the study's own head if it has one.
fn sections(findings: &Findings, names: &CandidateLabels) -> Markup {
    let several = findings.sections.len() > 1;
    let mut last = None;
    html! {
        @if panels(findings).next().is_none() { p { "There are no figures to show." } }
        @for (at, (study, section, panel)) in panels(findings).enumerate() {
            // If there are several panels, a table of all panels is an overview. The table of a single panel has the
            // figures of its pictures.
            @let is_overview = section.panels.len() > 1 || several;
            @if last.replace(study) != Some(study) && is_overview { (study::head(study, section, several)) }
            @let table = if is_overview { html! {} } else { study::head(study, section, several) };
            (panel::section(at, (section, panel), &findings.metrics, names, table))
        }
    }
}

fn foot(findings: &Findings) -> Markup {
    let hosts = words::provenance(findings);
    html! {
        h2 { "Where the figures come from" }
        p { (findings.rows) " rows." }
        @if !hosts.is_empty() { ul { @for line in hosts { li { (line) } } } }
    }
}

#[cfg(test)]
mod tests;
