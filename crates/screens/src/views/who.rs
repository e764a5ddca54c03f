//! The call sites of a trace. In: what was found. Out: text for a terminal, an answer, JSON.

pub mod against;
pub mod callers;
mod function;
pub(crate) mod growth;
pub mod sampled;
pub mod what_if;

use allocanary_text::outside::{TerminalStyle, harmless_lines};
use allocanary_text::units::{Unit, show_duration};
use allocanary_who::answer::{FreeMemoryState, sentence};
use allocanary_who::fold::BYS;
use allocanary_who::{AllocationSite, SiteOrder, SiteReport, Under};
use serde_json::{Value, json};
use std::time::Duration;

use self::growth::{a_minute, grown};
use crate::draw::{Answer, document, object};
use crate::views::heap::{bold, columns, item, percent};

/// From this width on, a terminal shows all columns.
const WIDE: u16 = 110;
/// Heaps below this size are shown in KiB, if all figures of a table have one unit.
const SMALL: u64 = 4 << 20;
/// The number of sites in a table.
const TOP: usize = 15;

/// How sites are shown.
#[derive(Clone, Copy, Debug, Default)]
pub struct SiteDisplay {
    /// The order of the sites; `None` means [`SiteOrder::of`].
    pub order: Option<SiteOrder>,
    /// The number of sites; `None` means 15, and all of them for a script.
    pub top: Option<usize>,
}

impl SiteDisplay {
    fn order(self, found: &SiteReport) -> SiteOrder {
        self.order.unwrap_or_else(|| SiteOrder::of(found))
    }
}

/// The answer, the pages, the first sites, and what limits the accuracy of the figures. With `under`, also the same under another
/// allocator.
pub fn text(found: &SiteReport, under: Option<&Under>, shown: SiteDisplay, look: &TerminalStyle) -> String {
    let answer = crate::draw::wrapped(&sentence(found, under), look.width.into());
    let when = show_duration(Duration::from_nanos(found.nanos));
    let title = format!("Pages of the heap, {} ({when} after the {})", found.moment.words, begin(found));
    let mut out =
        format!("{}\n\n{}\n{}", bold(&answer, look), pages(found, &title, look), sites(found, "", shown, look));
    if let Some(grown) = grown(found) {
        out.push_str(&format!("\n{}\n", harmless_lines(&crate::draw::wrapped(&grown, look.width.into()))));
    }
    if let Some(Under { candidate, found }) = under {
        let title = format!("Pages of the heap under {candidate}, by a replay until there");
        let there = format!(" under {candidate}");
        out.push_str(&format!("\n{}\n{}", pages(found, &title, look), sites(found, &there, shown, look)));
    }
    let sorted = shown.order(found).sorted(found);
    if let Some(said) = without_callers(&sorted[..sorted.len().min(shown.top.unwrap_or(TOP))]) {
        out.push_str(&format!("\n{}\n", crate::draw::wrapped(said, look.width.into())));
    }
    if let Some(said) = wrappers(found) {
        out.push_str(&format!("\n{}\n", harmless_lines(&crate::draw::wrapped(&said, look.width.into()))));
    }
    if !found.notes.is_empty() {
        out.push_str(&format!("\n{}\n", bold("What limits these figures", look)));
        found.notes.iter().for_each(|note| out.push_str(&item(note, look)));
    }
    out
}

/// The number of functions that are named because they only pass calls on, and so are no sites.
const NAMED: usize = 5;

/// Names the functions that only pass calls on and so are no sites.
pub(crate) fn wrappers(found: &SiteReport) -> Option<String> {
    let mut all: Vec<_> = found.wrappers.iter().collect();
    all.sort_by(|(a, of_a), (b, of_b)| (of_b, a).cmp(&(of_a, b)));
    let named: Vec<String> =
        all.iter().take(NAMED).map(|(name, callers)| format!("`{name}` ({callers} callers)")).collect();
    let more = all.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let text = format!(
        "Passed over as wrappers around malloc: {}{more}. Their callers are the sites. `--no-fold` makes them sites.",
        named.join(", ")
    );
    (!all.is_empty()).then_some(text)
}

/// The functions that only pass calls on, for a script.
fn of_wrappers(found: &SiteReport) -> Vec<Value> {
    found.wrappers.iter().map(|(name, callers)| json!({ "name": name, "callers": callers })).collect()
}

/// A time of a trace, for a script.
pub(crate) fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

/// The start from which times count.
pub(crate) fn begin(found: &SiteReport) -> &'static str {
    if found.freed_from_before.is_some() { "begin of the window" } else { "start" }
}

/// The answer in words, and for a script.
pub fn answer(found: &SiteReport, under: Option<&Under>) -> Answer {
    let facts = json!({
        "choice": FreeMemoryState::of(found).name(), "program": found.program, "at": found.moment.name,
        "at_seconds": seconds(found.nanos),
    });
    let mut facts = object(facts);
    facts.extend(object(of_pages(found)));
    let before = found.before_window();
    facts.insert("outside_bytes".into(), json!(found.pages.outside.filter(|_| before.is_none())));
    facts.insert("before_window_bytes".into(), json!(before));
    facts.insert("freed_from_before".into(), json!(found.freed_from_before));
    if let Some(under) = under {
        let mut there = object(json!({ "candidate": under.candidate }));
        there.extend(object(of_pages(&under.found)));
        facts.insert("under".into(), there.into());
    }
    Answer { text: sentence(found, under), pasted: None, facts }
}

fn of_pages(found: &SiteReport) -> Value {
    let pages = &found.pages;
    json!({
        "pages_bytes": pages.resident(), "requested_bytes": pages.live(), "pinned_bytes": pages.pinned(), "empty_bytes": pages.empty,
    })
}

/// The whole result for a script.
pub fn json(found: &SiteReport, under: Option<&Under>, shown: SiteDisplay) -> String {
    let by = BYS.iter().find(|(_, by)| *by == found.by).map_or("", |(name, _)| name);
    let top = shown.top.unwrap_or(usize::MAX);
    let sites = |found: &SiteReport| -> Vec<Value> {
        let sorted = shown.order(found).sorted(found).into_iter();
        sorted.take(top).map(|site| of_site(found, site)).collect()
    };
    let sort = shown.order(found).name();
    let besides = json!({ "by": by, "sort": sort, "one_in": found.one_in, "sites": sites(found), "wrappers": of_wrappers(found), "notes": found.notes });
    let mut besides = object(besides);
    if let Some(others) = shown.order(found).sorted(found).get(top..).filter(|others| !others.is_empty()) {
        let sum = |of: fn(&AllocationSite) -> u64| others.iter().map(|site| of(site)).fold(0, u64::saturating_add);
        let left_out = json!({
            "sites": others.len(), "requested_bytes": sum(|site| site.live), "pinned_bytes": sum(|site| site.share.pinned),
        });
        besides.insert("left_out".into(), left_out);
    }
    if let Some(under) = under {
        besides.insert("under".into(), json!({ "candidate": under.candidate, "sites": sites(&under.found) }));
    }
    document("who", &[answer(found, under)], besides)
}

fn of_site(found: &SiteReport, site: &AllocationSite) -> Value {
    let (frame, share) = (&site.frame, &site.share);
    // A sample does not show which pages a site has alone.
    let alone = |bytes: u64| found.one_in.is_none().then_some(bytes);
    let slope = site.slope;
    let new_blocks = growth::blocks_in_window(found, site);
    // Memory is not measured to a thousandth of a byte.
    let rate = |rate: f64| (rate * 1000.0).round() / 1000.0;
    let figures = json!({
        "pinned_bytes": share.pinned, "alone_bytes": alone(share.alone), "with_holes_bytes": alone(share.with_holes),
        "requested_bytes": site.live, "blocks": site.blocks, "untouched_bytes": share.untouched,
        "allocations": site.allocations, "allocated_total_bytes": site.bytes,
        "short_lived": site.short, "short_lived_bytes": site.short_bytes, "grows": site.grows, "without_callers": site.ended,
        "new_blocks_low": new_blocks.map(|(low, _)| low), "new_blocks_high": new_blocks.map(|(_, high)| high),
        "bytes_per_second": slope.map(|slope| rate(slope.per_second)), "bytes_per_second_low": slope.map(|slope| rate(slope.low)),
        "bytes_per_second_high": slope.map(|slope| rate(slope.high)),
    });
    let mut out = function::json(&site.name, frame);
    out.extend(object(figures));
    Value::Object(out)
}

/// The pages of the heap, by what they contain.
fn pages(found: &SiteReport, title: &str, look: &TerminalStyle) -> String {
    let pages = &found.pages;
    let all = pages.resident();
    let row = |name: &str, bytes: u64| {
        vec![name.to_string(), Unit::Bytes.show(bytes as f64), format!("{:.1} %", percent(bytes, all))]
    };
    let mut table = vec![["part", "bytes", "of all"].map(String::from).to_vec()];
    let is_window = found.freed_from_before.is_some();
    table.push(row(
        if is_window { "requested: live blocks of the window" } else { "requested: live blocks" },
        pages.live(),
    ));
    let pinned = "pinned: free, in pages with a live block";
    table.push(row(if is_window { "pinned at most: the rest of their pages" } else { pinned }, pages.pinned()));
    if let Some(empty) = pages.empty {
        let name = if is_window { "empty at most: pages that it has used" } else { "empty pages: nobody pins them" };
        table.push(row(name, empty));
    }
    table.push(row(if pages.empty.is_some() { "all" } else { "all pages that hold blocks" }, all));
    if let Some(before) = found.before_window() {
        let bytes = Unit::Bytes.show(before as f64);
        table.push(vec!["before the window: no block of it was there".into(), bytes, String::new()]);
    }
    format!("{}\n{}", title_of(title, look), columns(&table, look))
}

fn sites(found: &SiteReport, there: &str, how: SiteDisplay, look: &TerminalStyle) -> String {
    let is_wide = look.width >= WIDE;
    let is_known = found.one_in.is_none();
    let show = |bytes: u64| Unit::Bytes.show(bytes as f64);
    let alone = |bytes: u64| if is_known { show(bytes) } else { "-".into() };
    let row = |site: &AllocationSite| {
        let mut row = vec![site.name.clone(), show(site.share.pinned), alone(site.share.alone)];
        if is_wide {
            row.push(alone(site.share.with_holes));
        }
        row.push(show(site.live));
        if is_wide {
            row.push(Unit::Count.show(site.blocks as f64));
        }
        row.push(show(site.bytes));
        row.push(format!("{:.0} %", percent(site.short, site.allocations)));
        if is_wide {
            row.push(site.slope.as_ref().map_or("-".into(), a_minute));
        }
        row.push(remarks(site));
        row
    };
    let by = BYS.iter().find(|(_, by)| *by == found.by).map_or("", |(name, _)| name);
    let mut heads = vec!["site", "pinned", "alone"];
    heads.extend(is_wide.then_some("with holes"));
    heads.push("requested");
    heads.extend(is_wide.then_some("blocks"));
    heads.extend(["allocated", "short"]);
    heads.extend(is_wide.then_some("a minute"));
    heads.push("");
    let mut table = vec![heads.into_iter().map(String::from).collect::<Vec<_>>()];
    let order = how.order(found);
    let sorted = order.sorted(found);
    let shown = shown(found, how.top.unwrap_or(TOP));
    table.extend(sorted[..shown].iter().map(|site| row(site)));
    if let others @ [_, ..] = &sorted[shown..] {
        let mut sum = AllocationSite { name: format!("{} others", others.len()), ..AllocationSite::default() };
        for site in others {
            sum.share.pinned += site.share.pinned;
            sum.share.alone += site.share.alone;
            sum.share.with_holes += site.share.with_holes;
            sum.live += site.live;
            sum.blocks += site.blocks;
            sum.bytes = sum.bytes.saturating_add(site.bytes);
            sum.allocations += site.allocations;
            sum.short += site.short;
            sum.slope = growth::both(sum.slope, site.slope);
        }
        table.push(row(&sum));
    }
    format!(
        "{}\n{}",
        title_of(&format!("Sites by {by}{there}: {}, {}", found.sites.len(), order.words()), look),
        columns(&table, look)
    )
}

/// Remarks on a site, in addition to its figures.
pub(crate) fn remarks(site: &AllocationSite) -> String {
    let all = [(site.grows, "grows"), (site.is_without_callers(), "no callers")];
    all.iter().filter(|(is, _)| *is).map(|(_, word)| *word).collect::<Vec<_>>().join(", ")
}

/// The meaning of `no callers`, if it is shown for one of these sites.
pub(crate) fn without_callers(shown: &[&AllocationSite]) -> Option<&'static str> {
    let words = "No callers: this code has no unwinding tables, so its stacks end there, and what its callers wanted counts as its own. \
                 Compilers write the tables with -fasynchronous-unwind-tables.";
    shown.iter().any(|site| site.is_without_callers()).then_some(words)
}

/// A heading as wide as the terminal.
fn title_of(text: &str, look: &TerminalStyle) -> String {
    bold(&crate::draw::wrapped(text, look.width.into()), look)
}

/// How many sites have a line. If only one site would be left out, it gets a line as well.
fn shown(found: &SiteReport, top: usize) -> usize {
    if found.sites.len() <= top + 1 { found.sites.len() } else { top }
}

#[cfg(test)]
pub(crate) mod tests;
