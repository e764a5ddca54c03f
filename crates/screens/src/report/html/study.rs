//! The head of one study's part of the page: its question, its metrics, and figures that others have published.
//! In: a section. Out: HTML; empty for a study that has none of these.

use maud::{Markup, html};

use crate::draw::markup::{candidate, prose};
use crate::report::figures::{self, CandidateMedian, FigureBlock};
use allocanary_measure::summary::{StudySection, Verdict};

/// The head of the study at `place`. If `several` studies are on the page, the head has the study's question.
pub fn head(place: usize, section: &StudySection, several: bool) -> Markup {
    let heading = figures::heading(section);
    let heading = Some(heading).filter(|text| several && !text.is_empty());
    let blocks = if section.about.metrics.is_empty() { Vec::new() } else { figures::blocks(section) };
    let published = figures::published(section);
    html! {
        @if heading.is_some() || !blocks.is_empty() || !published.is_empty() {
            section id={ "study-" (place) } {
                @if let Some(heading) = heading { h2 { (heading) } }
                @if !section.about.metrics.is_empty() { (table(section, &blocks)) }
                @if !published.is_empty() {
                    h3 { "Published" }
                    ul { @for line in &published { li { (line) } } }
                }
            }
        }
    }
}

fn table(section: &StudySection, blocks: &[FigureBlock]) -> Markup {
    let metrics = &section.about.metrics;
    html! {
        div.scroll tabindex="0" {
            table {
                thead {
                    tr {
                        th scope="col" { "candidate" }
                        th scope="col" { "n" }
                        @for metric in metrics { th scope="col" { (metric.name) } }
                    }
                }
                tbody {
                    @for block in blocks {
                        // A single block needs no title, because it has that of the page.
                        @if blocks.len() > 1 {
                            tr { th scope="rowgroup" colspan=(metrics.len() + 2) { (block.title) } }
                        }
                        @for row in &block.rows {
                            tr {
                                th.name scope="row" { code { (candidate(&row.candidate)) } }
                                td { (row.n) }
                                @for figure in &row.figures { (cell(figure)) }
                            }
                        }
                    }
                }
            }
        }
        p.note { (prose(&figures::key(section))) " " (prose(&figures::meanings(section))) }
    }
}

fn cell(figure: &CandidateMedian) -> Markup {
    let class = match figure.verdict {
        Some(Verdict::Better) => Some("better"),
        Some(Verdict::Worse) => Some("worse"),
        _ => None,
    };
    html! {
        td class=[class] {
            @if !figure.mark.is_empty() { (figure.mark) " " }
            (figure.median) small { (figure.interval) }
        }
    }
}
