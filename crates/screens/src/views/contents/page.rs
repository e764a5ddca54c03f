//! The page about what a heap contains. In: contents. Out: HTML with a tree map that fetches nothing.

use std::time::Duration;

use allocanary_contents::{Contents, Leaked};
use allocanary_text::units::show_time;
use maud::{Markup, html};

use super::{answer, blocks, bytes, count, sampled, sure, tree_map};
use crate::draw::HtmlPage;
use crate::draw::markup::prose;
use crate::views::heap::percent;

/// The style rules of this page, added to those of all pages.
const OWN: &str = include_str!("page.css");
/// The number of holders in the map and the table, and the number of rows in the other tables.
const HOLDERS: usize = 11;
const ROWS: usize = 30;

/// The page.
pub fn page(contents: &Contents) -> String {
    let name = contents.process.name.raw();
    let head = html! {
        section #answer { p.answer { (prose(&answer(contents))) } }
        (facts(contents))
    };
    let main = html! {
        @if !contents.holders.is_empty() { (holders(contents)) }
        (retained(contents))
        (kinds(contents))
        (blocks::section(&contents.largest))
        @if let Some(leaked) = contents.leaked.as_ref().filter(|leaked| leaked.blocks > 0) { (leaks(leaked)) }
        (texts(contents))
        section {
            h2 { "How sure it is" }
            ul { @for one in sure(contents) { li { (prose(&one)) } } }
        }
    };
    let title = format!("What is in the heap of {name}");
    let heading = format!("What is in the heap of {name}?");
    HtmlPage { title: &title, heading: &heading, style: OWN, head, main, foot: html! {} }.document()
}

fn facts(contents: &Contents) -> Markup {
    html! {
        dl.facts {
            dt { "Process" } dd { (contents.process.pid) ", " (contents.process.name.raw()) }
            dt { "Executable" } dd { code { (contents.process.executable.raw()) } }
            dt { "Read" } dd { (show_time(Duration::from_millis(contents.taken))) " UTC" }
            dt { "Live" } dd { (bytes(contents.bytes)) " in " (count(contents.blocks)) " blocks" }
        }
    }
}

/// A table: the names of its columns, and its rows. The first cell of each row is a name.
fn table(names: &[&str], rows: &[(Markup, Vec<String>)]) -> Markup {
    html! {
        div.scroll {
            table {
                thead { tr { @for name in names { th scope="col" { (name) } } } }
                tbody {
                    @for (name, cells) in rows {
                        tr { th scope="row" { (name) } @for cell in cells { td { (prose(cell)) } } }
                    }
                }
            }
        }
    }
}

fn holders(contents: &Contents) -> Markup {
    let parts = tree_map::parts(contents, HOLDERS);
    let colors = tree_map::colored(&parts);
    let alone = |name: &str| contents.holders.iter().find(|holder| holder.name == name);
    let row = |(at, part): (usize, &tree_map::MapRect)| {
        let holder = alone(&part.name);
        let cells = vec![
            bytes(part.bytes),
            holder.map_or_else(|| "-".into(), |holder| bytes(holder.alone_bytes)),
            count(part.blocks),
        ];
        (html! { b { (at + 1) } " " (prose(&part.name)) }, cells)
    };
    let rows: Vec<(Markup, Vec<String>)> = parts.iter().enumerate().map(row).collect();
    html! {
        section {
            h2 { "Who holds it" }
            ul.legend aria-label="Kinds" {
                @for kind in &colors {
                    li {
                        svg.key viewBox="0 0 12 12" aria-hidden="true" {
                            rect fill=(tree_map::fill(kind, &colors)) width="12" height="12" {}
                        }
                        " " (kind)
                    }
                }
            }
            div.pictures { (tree_map::picture(&parts, &colors).figure()) }
            (table(&["held by", "bytes", "alone", "blocks"], &rows))
            p.note { "Alone: no other variable leads to them." }
        }
    }
}

fn retained(contents: &Contents) -> Markup {
    if contents.retained.is_empty() {
        return html! {};
    }
    let row = |one: &allocanary_contents::Retained| {
        let name = match one.depth {
            0 => html! { (one.kind) " of " (prose(&one.holder)) },
            depth => html! { span style={ "padding-left:" (1.2 * f64::from(depth)) "em" } { (one.kind) } },
        };
        let share = format!("{:.1} %", percent(one.bytes, contents.bytes));
        (name, vec![bytes(one.bytes), share, count(one.blocks)])
    };
    let rows: Vec<(Markup, Vec<String>)> = contents.retained.iter().take(ROWS).map(row).collect();
    html! {
        section {
            h2 { "What single blocks retain" }
            (table(&["block", "bytes", "of all", "blocks"], &rows))
            p.note { "Without that block nothing but stacks and registers leads to the others. Those below it are parts of it." }
        }
    }
}

fn kinds(contents: &Contents) -> Markup {
    let row = |row: &allocanary_contents::KindRow| {
        let likely = if row.likely { " (likely)" } else { "" };
        let within = row.within.map(|within| format!(" ± {}", bytes(within))).unwrap_or_default();
        let share = format!("{:.1} %", percent(row.bytes, contents.bytes));
        let place = contents.largest.iter().position(|one| one.wanted == row.kind);
        let name = html! { @if let Some(at) = place { a href=(blocks::link(at)) { (row.kind) } } @else { (row.kind) } (likely) };
        (name, vec![bytes(row.bytes) + &within, share, count(row.blocks)])
    };
    let rows: Vec<(Markup, Vec<String>)> = contents.kinds.iter().take(ROWS).map(row).collect();
    html! { section { h2 { "Kinds" } (table(&["kind", "bytes", "of all", "blocks"], &rows)) } }
}

fn leaks(leaked: &Leaked) -> Markup {
    let is_sampled = leaked.sampled.is_some_and(|sampled| sampled > 0);
    let mut names = vec!["kind", "each", "bytes", "blocks", "direct"];
    names.extend(is_sampled.then_some("allocated by"));
    let row = |row: &allocanary_contents::Lost| {
        let name = html! { (row.kind) @if let Some(text) = &row.text { " " code { (text) } } };
        let by =
            |(name, blocks): &(String, u64)| format!("{name} ({} of {} sampled)", count(*blocks), count(row.blocks));
        let by = is_sampled.then(|| sampled(row).iter().map(by).collect::<Vec<_>>().join(", "));
        let cells = [bytes(row.each), bytes(row.bytes), count(row.blocks), count(row.direct)];
        (name, cells.into_iter().chain(by).collect())
    };
    let rows: Vec<(Markup, Vec<String>)> = leaked.rows.iter().take(ROWS).map(row).collect();
    let site = |site: &allocanary_contents::LeakSite| {
        let name = if site.name.is_empty() { "not in the trace" } else { &site.name };
        (html! { (name) }, vec![bytes(site.bytes), count(site.blocks)])
    };
    let sites: Vec<(Markup, Vec<String>)> = leaked.sites.iter().take(ROWS).map(site).collect();
    html! {
        section {
            h2 { "What is leaked" }
            p { (bytes(leaked.bytes)) " in " (count(leaked.blocks)) " blocks, " (count(leaked.direct_blocks)) " of them direct: no other leaked block leads to them." }
            (table(&names, &rows))
            @if !sites.is_empty() { (table(&["allocated by", "bytes", "blocks"], &sites)) }
        }
    }
}

fn texts(contents: &Contents) -> Markup {
    let Some(equal) = contents.texts.as_ref().filter(|equal| !equal.is_empty()) else { return html! {} };
    let row = |one: &allocanary_contents::Text| {
        (html! { code { (one.text) } }, vec![count(one.blocks), bytes(one.bytes), bytes(one.again)])
    };
    let rows: Vec<(Markup, Vec<String>)> = equal.iter().take(ROWS).map(row).collect();
    html! { section { h2 { "Equal texts" } (table(&["text", "blocks", "bytes", "but for one"], &rows)) } }
}
