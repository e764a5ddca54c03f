//! The tables of a panel: memory, verdicts, price, parts of RSS, and every figure. In: a panel. Out: HTML.

use crate::markup::{candidate, escaped, prose};
use crate::{pictures::palette, words};
use allocanary_study::summary::{
    Comparison, Estimate, Line, Metric, Metrics, PRICE, Panel, Point, Verdict, metric_of_all,
};

/// RSS when idle, candidates by columns.
pub fn memory(panel: &Panel) -> String {
    let cell = |at: usize, column: usize, point: &Point| {
        let Some(rss) = point.get("rss") else { return format!("<td>{}</td>", failed(point)) };
        let best = words::starred(panel, column, "rss") == Some(at);
        let class = if best { " class=\"best\"" } else { "" };
        let overhead = words::median(metric_of_all("overhead"), point.get("overhead"));
        let overhead = if overhead == "-" { overhead } else { format!("{overhead} live") };
        format!(
            "<td{class}>{}<small>{overhead}</small>{}</td>",
            median_and_interval(metric_of_all("rss"), rss),
            failed(point)
        )
    };
    let rows = panel.lines.iter().enumerate().map(|(at, line)| {
        let cells = line.points.iter().enumerate().map(|(column, point)| match point {
            Some(point) => cell(at, column, point),
            None => "<td>-</td>".into(),
        });
        row(at, line, cells)
    });
    let note = "Resident memory when idle, its 95 % interval, how many times the live bytes that is, and the number \
                of samples. ★ is the least in its column.";
    table("Resident memory when idle", note, &columns(panel), rows)
}

/// Every other candidate compared with the first, by columns.
pub fn verdicts(panel: &Panel) -> String {
    let Some(first) = panel.lines.first().filter(|_| panel.lines.len() > 1) else { return String::new() };
    let cell = |line: usize, column: usize| {
        let found = panel.comparisons.iter().find(|(at, at_column, _)| (*at, *at_column) == (line, column));
        found.map_or("<td>-</td>".into(), |(_, _, comparison)| verdict(comparison))
    };
    let rows = panel.lines.iter().enumerate().skip(1);
    let rows = rows.map(|(at, line)| row(at, line, (0..panel.columns.len()).map(move |column| cell(at, column))));
    let title = format!("Against <code>{}</code>", candidate(&first.name()));
    let note = "Change of resident memory when idle, with its 95 % interval. Equal: the interval lies within 2 %. \
                Undecided: the samples spread too far, or are too few, to tell.";
    table(&title, note, &columns(panel), rows)
}

/// Time and work at the largest column, compared with the first candidate.
pub fn price(panel: &Panel) -> String {
    let Some((first, last)) = panel.lines.first().zip(panel.columns.len().checked_sub(1)) else { return String::new() };
    let known = |metric: &&str| {
        let mut here = panel.comparisons_in(metric).filter(|(_, at, _)| *at == last);
        here.any(|(_, _, comparison)| comparison.n.0.min(comparison.n.1) > 0)
    };
    let metrics: Vec<&str> = PRICE.into_iter().filter(known).collect();
    let cell = |line: usize, metric: &str| {
        let found = panel.comparison(metric, line, last).filter(|found| found.n.0.min(found.n.1) > 0);
        found.map_or("<td>-</td>".into(), verdict)
    };
    let rows = panel.lines.iter().enumerate().skip(1);
    let rows = rows.map(|(at, line)| row(at, line, metrics.iter().map(move |metric| cell(at, metric))));
    let at = words::column(panel.axis, panel.columns[last]);
    let title = format!("The price at {at}, against <code>{}</code>", candidate(&first.name()));
    let note = "Change of what less memory may be paid with: operations in a second, the duration that 99 % of them \
                stay within, processor time.";
    table(&title, note, &metrics.iter().map(|metric| metric.to_string()).collect::<Vec<_>>(), rows)
}

fn verdict(comparison: &Comparison) -> String {
    let sign = if comparison.ratio() < 1.0 { "▼ " } else { "▲ " };
    let (class, sign) = match comparison.verdict {
        Verdict::Better => (" class=\"better\"", sign),
        Verdict::Worse => (" class=\"worse\"", sign),
        _ => (" class=\"none\"", ""),
    };
    let text = escaped(&words::short_verdict(comparison));
    match text.split_once('\n') {
        Some((word, change)) if comparison.interval.is_some() => {
            format!(
                "<td{class}>{sign}{word}<small>{}, {}</small></td>",
                change.replace('\n', ", "),
                words::count_of(comparison)
            )
        }
        _ => format!("<td{class}>{}</td>", text.replace('\n', " ")),
    }
}

/// The parts of RSS at the largest column, as the kernel and as the allocator report them.
pub fn money(panel: &Panel) -> String {
    const PARTS: [(&str, &str); 8] = [
        ("live", "live"),
        ("allocated", "allocated"),
        ("active", "active"),
        ("resident", "resident"),
        ("metadata", "metadata"),
        ("rss", "RSS"),
        ("lazy_free", "lazily freed"),
        ("anon_huge", "in huge pages"),
    ];
    let Some(last) = panel.columns.last() else { return String::new() };
    let cell = |line: &Line, metric: &str| {
        let point = line.points.last().and_then(Option::as_ref);
        format!("<td>{}</td>", words::median(metric_of_all(metric), point.and_then(|point| point.get(metric))))
    };
    let rows = panel.lines.iter().enumerate();
    let rows = rows.map(|(at, line)| row(at, line, PARTS.iter().map(|(metric, _)| cell(line, metric))));
    let title = format!("Where the memory is at {}", words::column(panel.axis, *last));
    let note = "When idle. Live is what the service holds. Allocated (in blocks), active (in pages with blocks), \
                resident (in pages not given back) and metadata are what the allocator says of itself, where it \
                does. RSS is what the kernel counts; of it, lazily freed pages go first when memory runs short.";
    table(&title, note, &PARTS.map(|(_, name)| name.to_string()), rows)
}

/// Every metric at each column, in a folded section.
pub fn everything(panel: &Panel, metrics: &Metrics) -> String {
    let has_figures = |metric: &&Metric| {
        panel.lines.iter().flat_map(|line| line.points.iter().flatten()).any(|point| point.get(&metric.name).is_some())
    };
    let (found, missing): (Vec<&Metric>, Vec<&Metric>) = metrics.all().partition(has_figures);
    if found.is_empty() {
        return String::new();
    }
    let candidates = panel.lines.iter().enumerate();
    let heads: String =
        candidates.map(|(at, line)| format!("<th scope=\"col\">{}</th>", name(at, &line.name()))).collect();
    let groups: String = found.iter().map(|metric| group(panel, metric)).collect();
    let missing: Vec<String> = missing.iter().map(|metric| escaped(metric.about)).collect();
    let missing =
        if missing.is_empty() { String::new() } else { format!(" Not measured here: {}.", missing.join("; ")) };
    format!(
        "<details>\n<summary>Every figure: {} metrics at each column</summary>\n\
         <p class=\"note\">Medians and their 95 % intervals.{missing}</p>\n\
         <div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Every figure\">\n<table class=\"all\">\n\
         <thead><tr><th scope=\"col\">metric</th><th scope=\"col\">{}</th>{heads}</tr></thead>\n{groups}</table>\n\
         </div>\n</details>\n",
        found.len(),
        panel.axis.name(),
    )
}

/// A metric's rows: one for each column.
fn group(panel: &Panel, metric: &Metric) -> String {
    let figure = |line: &Line, column: usize| {
        let found = line.points.get(column).and_then(Option::as_ref).and_then(|point| point.get(&metric.name));
        format!("<td>{}</td>", found.map_or("-".into(), |found| median_and_interval(metric, found)))
    };
    let rows = panel.columns.iter().enumerate().map(|(column, value)| {
        let head = format!(
            "<th scope=\"rowgroup\" rowspan=\"{}\">{}<small>{}</small></th>",
            panel.columns.len(),
            metric.name,
            escaped(metric.about)
        );
        let head = if column == 0 { head } else { String::new() };
        let cells: String = panel.lines.iter().map(|line| figure(line, column)).collect();
        format!("<tr>{head}<th scope=\"row\">{value}</th>{cells}</tr>\n")
    });
    format!("<tbody>\n{}</tbody>\n", rows.collect::<String>())
}

/// A titled table with a row for each candidate. In: HTML.
fn table(title: &str, note: &str, heads: &[String], rows: impl Iterator<Item = String>) -> String {
    let rows: String = rows.collect();
    if rows.is_empty() || heads.is_empty() {
        return String::new();
    }
    let heads: String = heads.iter().map(|head| format!("<th scope=\"col\">{head}</th>")).collect();
    format!(
        "<div class=\"scroll\" tabindex=\"0\">\n<table>\n<caption>{title}</caption>\n\
         <thead><tr><th scope=\"col\">candidate</th>{heads}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n</div>\n\
         <p class=\"note\">{}</p>\n",
        prose(note)
    )
}

fn columns(panel: &Panel) -> Vec<String> {
    panel.columns.iter().map(|value| words::column(panel.axis, *value)).collect()
}

fn row(at: usize, line: &Line, cells: impl Iterator<Item = String>) -> String {
    format!("<tr><th scope=\"row\" class=\"name\">{}</th>{}</tr>\n", name(at, &line.name()), cells.collect::<String>())
}

fn name(at: usize, text: &str) -> String {
    format!("{}<code>{}</code>", palette::swatch(at), candidate(text))
}

fn median_and_interval(metric: &Metric, found: &Estimate) -> String {
    let (median, interval) = (words::median(metric, Some(found)), words::interval(metric, Some(found)));
    let texts: Vec<String> = [interval, words::count(found)].into_iter().filter(|text| !text.is_empty()).collect();
    format!("{median}<small>{}</small>", texts.join(", "))
}

fn failed(point: &Point) -> String {
    if point.failed == 0 { String::new() } else { format!("<small class=\"worse\">{} failed</small>", point.failed) }
}
