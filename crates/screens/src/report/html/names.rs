//! The candidates' names in a page. A candidate has a mark if the effect of a setting could not be shown. In: findings. Out:
//! names and footnotes.

use maud::{Markup, html};

use crate::draw::markup::{candidate, prose};
use crate::draw::palette;
use allocanary_measure::summary::{CandidatePoints, Findings};

/// The candidates with unproven settings.
#[derive(Default)]
pub struct CandidateLabels {
    unproven: Vec<(String, String)>,
}

impl CandidateLabels {
    /// The names of some findings.
    pub fn of(findings: &Findings) -> CandidateLabels {
        let said = |(candidate, setting, why): &(_, String, String)| {
            let candidate = format!("{candidate}");
            (candidate.clone(), format!("{candidate}: {setting} was taken, but {why}"))
        };
        CandidateLabels { unproven: findings.unproven.iter().map(said).collect() }
    }

    /// The name of a line, with a grey mark if there is a footnote about it.
    pub fn name(&self, line: &CandidatePoints) -> Markup {
        let spec = line.candidate.to_string();
        html! {
            code { (candidate(&line.name())) }
            @if self.unproven.iter().any(|(name, _)| *name == spec) { sup.doubt title="its effect is unproven" { "†" } }
        }
    }

    /// The line's drawn mark, and its [`name`](CandidateLabels::name).
    pub fn marked(&self, at: usize, line: &CandidatePoints) -> Markup {
        html! { (palette::swatch(at)) (self.name(line)) }
    }

    /// The footnotes to the marks.
    pub fn footnotes(&self) -> Markup {
        html! {
            @if !self.unproven.is_empty() {
                section.footnotes {
                    p.note { sup.doubt { "†" } " Unproven: a setting of which no effect could be read back." }
                    ul.note { @for (_, said) in &self.unproven { li { (prose(said)) } } }
                }
            }
        }
    }
}
