//! A section of the page: who points to the blocks that retain most, for each of the largest kinds. In: the result of the search. Out: HTML
//! that is folded, and opens where a kind's name in the table leads to it.

use allocanary_contents::{Pointed, PointedBlock};
use maud::{Markup, html};

use super::count;
use super::pointed::{about, word};
use crate::draw::markup::prose;

/// The name of the place of a kind on the page.
fn place(at: usize) -> String {
    format!("blocks-of-kind-{at}")
}

/// A link to this place.
pub(super) fn link(at: usize) -> String {
    format!("#{}", place(at))
}

pub(super) fn section(all: &[Pointed]) -> Markup {
    if all.is_empty() {
        return html! {};
    }
    html! {
        section {
            h2 { "Who points to the blocks that retain most" }
            @for (at, kind) in all.iter().enumerate() {
                details {
                    summary { (kind.wanted) ", " (count(kind.found)) " blocks" }
                    // A browser opens the details around a place to which a link leads.
                    div id=(place(at)) {
                        @if kind.blocks.is_empty() { p { "Only stacks and registers lead to them." } }
                        @for block in &kind.blocks { (one(block)) }
                    }
                }
            }
            p.note { "Only a few blocks of each kind are shown. " code { "--to-address" } " and " code { "--kind" } " show others." }
        }
    }
}

fn one(block: &PointedBlock) -> Markup {
    html! {
        p { (prose(&about(block))) }
        dl.facts {
            dt { "Held by" }
            dd { ol { @for step in &block.path { li { (prose(&word(step))) } } } }
            dt { "Pointed to by" }
            dd {
                ul {
                    @for pointer in &block.pointers { li { (prose(&word(pointer))) } }
                    @if block.more > 0 { li { (count(block.more)) " more" } }
                }
            }
            dt { "First words" }
            dd { ul { @for (at, what) in block.first.iter().enumerate() { li { (format!("+{:#x}: {what}", 8 * at)) } } } }
            @if let Some(text) = &block.text { dt { "Text" } dd { code { (text) } } }
        }
    }
}
