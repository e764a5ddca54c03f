//! The tables of a panel: memory, verdicts, cost, the allocator's counters, and every figure. In: a panel. Out: HTML.

use maud::{Markup, html};

use super::names::CandidateLabels;
use crate::draw::markup::{candidate, prose};
use crate::report::words::{self, PER_REQUESTED};
use allocanary_measure::metrics::{Metric, Metrics, metric_of_all};
use allocanary_measure::summary::{COST, CandidatePoints, GroupComparison, MedianEstimate, Panel, Point, Verdict};

/// Resident memory when idle: a row for each candidate, with its columns.
pub fn memory(panel: &Panel, names: &CandidateLabels) -> Markup {
    let cell = |at: usize, column: usize, point: &Point| {
        let Some(rss) = point.get("resident") else { return html! { td { (failed(point)) } } };
        let class = (words::starred(panel, column, "resident") == Some(at)).then_some("best");
        let ratio = words::median(metric_of_all(PER_REQUESTED), point.get(PER_REQUESTED));
        html! {
            td class=[class] {
                (median_and_interval(metric_of_all("resident"), rss))
                @if ratio != "-" { small { (ratio) " requested" } }
                (failed(point))
            }
        }
    };
    let rows = panel.lines.iter().enumerate().map(|(at, line)| {
        let cells = line.points.iter().enumerate().map(move |(column, point)| match point {
            Some(point) => cell(at, column, point),
            None => html! { td { "-" } },
        });
        (names.marked(at, line), cells.collect())
    });
    let note = "Resident memory when idle, its 95 % interval, how many times the requested bytes that is, and the number \
                of samples. ★ is the least in its column.";
    table(html! { "Resident memory when idle" }, note, &columns(panel), rows.collect())
}

/// Every other candidate compared with the first, at each column.
pub fn verdicts(panel: &Panel, names: &CandidateLabels) -> Markup {
    let Some(first) = panel.lines.first().filter(|_| panel.lines.len() > 1) else { return html! {} };
    let cell = |line: usize, column: usize| {
        let found = panel.comparisons.iter().find(|(at, at_column, _)| (*at, *at_column) == (line, column));
        found.map_or(html! { td { "-" } }, |(_, _, comparison)| verdict(comparison))
    };
    let rows = panel.lines.iter().enumerate().skip(1);
    let rows = rows
        .map(|(at, line)| (names.marked(at, line), (0..panel.columns.len()).map(|column| cell(at, column)).collect()));
    let title = html! { "Against " code { (candidate(&first.name())) } };
    let note = "Change of resident memory when idle, with its 95 % interval. Equal: the interval lies within 2 %. \
                Undecided: the samples spread too far, or are too few, to tell.";
    table(title, note, &columns(panel), rows.collect())
}

/// Time and work at the largest column, compared with the first candidate.
pub fn cost(panel: &Panel, names: &CandidateLabels) -> Markup {
    let Some((first, last)) = panel.lines.first().zip(panel.columns.len().checked_sub(1)) else { return html! {} };
    let known = |metric: &&str| {
        let mut here = panel.comparisons_in(metric).filter(|(_, at, _)| *at == last);
        here.any(|(_, _, comparison)| comparison.n.0.min(comparison.n.1) > 0)
    };
    let metrics: Vec<&str> = COST.into_iter().filter(known).collect();
    let cell = |line: usize, metric: &str| {
        let found = panel.comparison(metric, line, last).filter(|found| found.n.0.min(found.n.1) > 0);
        found.map_or(html! { td { "-" } }, verdict)
    };
    let rows = panel.lines.iter().enumerate().skip(1);
    let rows = rows.map(|(at, line)| (names.marked(at, line), metrics.iter().map(|metric| cell(at, metric)).collect()));
    let at = words::column(panel.axis, panel.columns[last]);
    let title = html! { "The cost at " (at) ", against " code { (candidate(&first.name())) } };
    let note = "Change of what less memory may be paid with: operations in a second, the duration that 99 % of them \
                stay within, processor time.";
    table(title, note, &metrics.iter().map(|metric| metric.to_string()).collect::<Vec<_>>(), rows.collect())
}

fn verdict(comparison: &GroupComparison) -> Markup {
    let sign = if comparison.ratio() < 1.0 { "▼ " } else { "▲ " };
    let (class, sign) = match comparison.verdict {
        Verdict::Better => ("better", sign),
        Verdict::Worse => ("worse", sign),
        _ => ("none", ""),
    };
    let text = words::short_verdict(comparison);
    html! {
        @if let Some((word, change)) = text.split_once('\n').filter(|_| comparison.interval.is_some()) {
            td class=(class) {
                (sign) (word) small { (change.replace('\n', ", ")) ", " (words::count_of(comparison)) }
            }
        } @else {
            td class=(class) { (text.replace('\n', " ")) }
        }
    }
}

/// The allocator's counters at the largest column, beside what the kernel counts.
pub fn allocator_counters(panel: &Panel, names: &CandidateLabels) -> Markup {
    const SHOWN: [(&str, &str); 8] = [
        ("requested", "requested"),
        ("allocator_allocated", "allocated"),
        ("allocator_active", "active"),
        ("allocator_resident", "not given back"),
        ("allocator_metadata", "metadata"),
        ("resident", "resident"),
        ("lazy_free", "lazily freed"),
        ("anonymous_huge", "in huge pages"),
    ];
    let Some(last) = panel.columns.last() else { return html! {} };
    let figure = |line: &CandidatePoints, metric: &str| {
        let point = line.points.last().and_then(Option::as_ref);
        words::median(metric_of_all(metric), point.and_then(|point| point.get(metric)))
    };
    // A counter for which no candidate has a figure needs no column.
    let shown: Vec<_> =
        SHOWN.iter().filter(|(metric, _)| panel.lines.iter().any(|line| figure(line, metric) != "-")).collect();
    // The tables above already show a single figure, so this table is left out.
    if shown.len() < 2 {
        return html! {};
    }
    let row = |(at, line): (usize, &CandidatePoints)| {
        let cells = shown.iter().map(|(metric, _)| html! { td { (figure(line, metric)) } });
        (names.marked(at, line), cells.collect())
    };
    let title = html! { "The allocator's counters at " (words::column(panel.axis, *last)) };
    let note = "When idle. Requested is what the service has asked for and not freed. Allocated (in blocks), active (in \
                pages with blocks), not given back and metadata are what the allocator says of itself, where it does: \
                it counts addresses. Resident is what the kernel counts; of it, lazily freed pages go first when \
                memory runs short.";
    let heads: Vec<String> = shown.iter().map(|(_, name)| name.to_string()).collect();
    table(title, note, &heads, panel.lines.iter().enumerate().map(row).collect())
}

/// Every metric at each column, in a folded section.
pub fn everything(panel: &Panel, metrics: &Metrics, names: &CandidateLabels) -> Markup {
    let has_figures = |metric: &&Metric| {
        panel.lines.iter().flat_map(|line| line.points.iter().flatten()).any(|point| point.get(&metric.name).is_some())
    };
    let (found, missing): (Vec<&Metric>, Vec<&Metric>) = metrics.all().partition(has_figures);
    let missing: Vec<&str> = missing.iter().map(|metric| metric.about).collect();
    html! {
        @if !found.is_empty() {
            details {
                summary { "Every figure: " (found.len()) " metrics at each column" }
                p.note {
                    (prose("Medians and their 95 % intervals."))
                    @if !missing.is_empty() { " Not measured here: " (missing.join("; ")) "." }
                }
                div.scroll tabindex="0" role="region" aria-label="Every figure" {
                    table.all {
                        thead {
                            tr {
                                th scope="col" { "metric" }
                                th scope="col" { (panel.axis.name()) }
                                @for (at, line) in panel.lines.iter().enumerate() {
                                    th scope="col" { (names.marked(at, line)) }
                                }
                            }
                        }
                        @for metric in &found { (group(panel, metric)) }
                    }
                }
            }
        }
    }
}

/// A metric's rows: one for each column.
fn group(panel: &Panel, metric: &Metric) -> Markup {
    let figure = |line: &CandidatePoints, column: usize| {
        let found = line.points.get(column).and_then(Option::as_ref).and_then(|point| point.get(&metric.name));
        found.map_or(html! { "-" }, |found| median_and_interval(metric, found))
    };
    html! {
        tbody {
            @for (column, value) in panel.columns.iter().enumerate() {
                tr {
                    @if column == 0 {
                        th scope="rowgroup" rowspan=(panel.columns.len()) { (metric.name) small { (metric.about) } }
                    }
                    th scope="row" { (value) }
                    @for line in &panel.lines { td { (figure(line, column)) } }
                }
            }
        }
    }
}

/// A titled table with a row for each candidate.
fn table(title: Markup, note: &str, heads: &[String], rows: Vec<(Markup, Vec<Markup>)>) -> Markup {
    html! {
        @if !rows.is_empty() && !heads.is_empty() {
            div.scroll tabindex="0" {
                table {
                    caption { (title) }
                    thead { tr { th scope="col" { "candidate" } @for head in heads { th scope="col" { (head) } } } }
                    tbody {
                        @for (name, cells) in &rows {
                            tr { th.name scope="row" { (name) } @for cell in cells { (cell) } }
                        }
                    }
                }
            }
            p.note { (prose(note)) }
        }
    }
}

fn columns(panel: &Panel) -> Vec<String> {
    panel.columns.iter().map(|value| words::column(panel.axis, *value)).collect()
}

fn median_and_interval(metric: &Metric, found: &MedianEstimate) -> Markup {
    let (median, interval) = (words::median(metric, Some(found)), words::interval(metric, Some(found)));
    let texts: Vec<String> = [interval, words::count(found)].into_iter().filter(|text| !text.is_empty()).collect();
    html! { (median) small { (texts.join(", ")) } }
}

fn failed(point: &Point) -> Markup {
    html! { @if point.failed > 0 { small.worse { (point.failed) " failed" } } }
}
