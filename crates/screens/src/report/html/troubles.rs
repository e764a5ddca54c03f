//! Problems, if there are any, and remarks about the rows. In: findings. Out: sections.

use maud::{Markup, html};

use crate::report::words;
use allocanary_measure::summary::Findings;

/// Failures come first, because the figures below do not include them. Remarks about valid rows do not count as
/// failures.
pub fn section(findings: &Findings) -> Markup {
    html! {
        (list("troubles", "What went wrong", &words::failures(findings)))
        (list("remarks", "What to know about these figures", &findings.notes))
    }
}

/// A long list is folded, so that it does not hide the result.
fn list(class: &str, title: &str, lines: &[String]) -> Markup {
    const IN_SIGHT: usize = 8;
    let (seen, folded) = lines.split_at(lines.len().min(IN_SIGHT));
    html! {
        @if !lines.is_empty() {
            section class=(class) {
                h2 { (title) }
                ul { @for line in seen { li { (line) } } }
                @if !folded.is_empty() {
                    details {
                        summary { (folded.len()) " more" }
                        ul { @for line in folded { li { (line) } } }
                    }
                }
            }
        }
    }
}
