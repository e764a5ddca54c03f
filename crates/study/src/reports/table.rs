//! `table`: for a terminal of 80 columns or more. In: findings. Out: tables and sentences.

use comfy_table::{Attribute, Cell, CellAlignment, Color, ContentArrangement, LineStyle, Table, TableStyle};

use super::{figures, words};
use crate::report::Report;
use crate::summary::{Comparison, Findings, Panel, Section, Verdict};
use allocanary_kernel::terminal::Look;
use allocanary_kernel::units::Unit;

/// The report.
pub const REPORT: Report = Report { name: "table", about: "tables and verdicts for a terminal", render };

fn render(findings: &Findings, look: &Look) -> String {
    let mut out = String::new();
    for section in &findings.sections {
        let heading = figures::heading(section);
        if !heading.is_empty() {
            // A question alone stands as it always has; one of several studies is a heading.
            let heading = if section.name.is_some() { bold(&wrapped(&heading, look), look) } else { heading };
            out.push_str(&format!("{heading}\n\n"));
        }
        if section.about.metrics.is_empty() {
            section.panels.iter().for_each(|panel| out.push_str(&whole(panel, look)));
        } else {
            out.push_str(&format!("{}\n", own(section, look)));
            out.push_str(&format!("{}\n", wrapped(figures::KEY, look)));
            out.push_str(&format!("{}\n", wrapped(&figures::meanings(section), look)));
            for line in figures::settled(section) {
                out.push_str(&format!("{}\n", wrapped(&line, look)));
            }
            out.push('\n');
        }
        let published = figures::published(section);
        if !published.is_empty() {
            out.push_str(&format!("{}\n", bold("Published", look)));
            let hanging = Look { width: look.width.saturating_sub(2), ..*look };
            let item = |line: &String| format!("- {}\n", wrapped(line, &hanging).replace('\n', "\n  "));
            out.extend(published.iter().map(item));
            out.push('\n');
        }
    }
    for trouble in words::troubles(findings) {
        out.push_str(&format!("{}\n", paint(&trouble, Color::Red, look)));
    }
    out.push_str(&format!("{} rows; medians of fresh processes in shuffled order\n", findings.rows));
    for line in words::provenance(findings) {
        out.push_str(&format!("{}\n", wrapped(&line, look)));
    }
    out
}

/// All about a panel: its memory, the rest, the verdicts.
fn whole(panel: &Panel, look: &Look) -> String {
    let live = words::live(panel).map_or(String::new(), |live| format!(", {live} live"));
    let title = format!("{}: MiB resident when idle, by {}{live}", panel.title, panel.axis.name());
    let mut out = format!("{}\n{}\n", bold(&wrapped(&title, look), look), memory(panel, look));
    let ratio = if live.is_empty() { "" } else { "resident / live, " };
    out.push_str(&format!("median, {ratio}[95 % interval of the median]; * least in its column\n"));
    if let Some(headline) = words::headline(panel) {
        out.push_str(&format!("{}\n", wrapped(&headline, look)));
    }
    if let Some(last) = panel.columns.last() {
        let title = format!("{}: the rest at {}", panel.title, words::column(panel.axis, *last));
        out.push_str(&format!("\n{}\n{}\n", bold(&wrapped(&title, look), look), rest(panel, look)));
    }
    out.push_str(&verdicts(panel, look));
    out.push('\n');
    out
}

/// The metrics that the study names: a row for each candidate under a row for each workload.
fn own(section: &Section, look: &Look) -> Table {
    let mut table = bare_table(look);
    let heads = section.about.metrics.iter().map(|metric| metric.name.to_string());
    table.set_header(std::iter::once("candidate".to_string()).chain(heads));
    for block in figures::blocks(section) {
        table.add_row([Cell::new(block.title)]);
        for row in block.rows {
            let figures = row.figures.iter().map(|figure| {
                // A blank where there is no mark, so that the numbers stand below each other.
                let cell = Cell::new(format!("{} {:1}", figure.median, figure.mark));
                figure.verdict.map_or(cell.clone(), |verdict| painted(cell, verdict, look))
            });
            let name = Cell::new(format!("  {}", broken(&row.candidate).replace('\n', "\n  ")));
            table.add_row(std::iter::once(name).chain(figures));
        }
    }
    align(table, section.about.metrics.len())
}

/// Candidates by columns: median and overhead above the interval.
fn memory(panel: &Panel, look: &Look) -> Table {
    let mut table = bare_table(look);
    let heads = panel.columns.iter().map(|value| words::column(panel.axis, *value));
    table.set_header(std::iter::once("candidate".to_string()).chain(heads));
    for (at, line) in panel.lines.iter().enumerate() {
        let mut cells = vec![Cell::new(broken(&line.candidate))];
        for (column, point) in line.points.iter().enumerate() {
            let Some(point) = point else {
                cells.push(Cell::new("-"));
                continue;
            };
            let best = words::best(panel, column, "rss") == Some(at) && panel.lines.len() > 1;
            let text = match point.get("rss") {
                None => format!("{} failed", point.failed),
                Some(rss) => {
                    let overhead = point.get("overhead").map_or(String::new(), |ratio| Unit::Ratio.show(ratio.median));
                    let star = if best { "*" } else { "" };
                    let [median, low, high] = [rss.median, rss.low, rss.high].map(words::mebibytes);
                    format!("{star}{median} {overhead}\n[{low}–{high}]")
                }
            };
            let cell = Cell::new(text);
            let painted = best && look.color;
            cells.push(if painted { cell.fg(Color::Green).add_attribute(Attribute::Bold) } else { cell });
        }
        table.add_row(cells);
    }
    align(table, panel.columns.len())
}

/// What else there is to know, at the largest column.
fn rest(panel: &Panel, look: &Look) -> Table {
    let columns = ["peak", "rss_purged", "throughput", "p99", "cpu", "faults"];
    let heads = ["candidate", "peak", "purged", "ops", "p99", "cpu", "faults"];
    let mut table = bare_table(look);
    table.set_header(heads);
    for line in &panel.lines {
        let point = line.points.last().and_then(Option::as_ref);
        let figure = |metric: &&str| words::median(metric, point.and_then(|point| point.get(metric)));
        table.add_row(std::iter::once(line.candidate.clone()).chain(columns.iter().map(figure)));
    }
    align(table, columns.len())
}

/// A verdict for each candidate against the first, at each column.
fn verdicts(panel: &Panel, look: &Look) -> String {
    let Some(first) = panel.lines.first().filter(|_| panel.lines.len() > 1) else { return String::new() };
    let mut table = bare_table(look);
    let heads = panel.columns.iter().map(|value| words::column(panel.axis, *value));
    table.set_header(std::iter::once(format!("against {}", first.candidate)).chain(heads));
    for (at, line) in panel.lines.iter().enumerate().skip(1) {
        let cell = |column: usize| {
            let found = panel.comparisons.iter().find(|(line, at_column, _)| (*line, *at_column) == (at, column));
            let Some((_, _, comparison)) = found else { return Cell::new("-") };
            verdict_cell(comparison, look)
        };
        let cells = (0..panel.columns.len()).map(cell);
        table.add_row(std::iter::once(Cell::new(broken(&line.candidate))).chain(cells));
    }
    let title = format!("{}: resident memory when idle, change in % (or times, x), [95 % interval]", panel.title);
    format!("\n{}\n{}\n", bold(&wrapped(&title, look), look), align(table, panel.columns.len()))
}

/// A verdict in its colour.
pub fn verdict_cell(comparison: &Comparison, look: &Look) -> Cell {
    painted(Cell::new(words::short_verdict(comparison)), comparison.verdict, look)
}

fn painted(cell: Cell, verdict: Verdict, look: &Look) -> Cell {
    match verdict {
        Verdict::Better if look.color => cell.fg(Color::Green),
        Verdict::Worse if look.color => cell.fg(Color::Red),
        _ => cell,
    }
}

/// A candidate on two lines: its settings below its name.
pub fn broken(candidate: &str) -> String {
    match candidate.split_once([':', ' ']) {
        Some((name, settings)) => format!("{name}\n  {}", settings.replace(',', "\n  ")),
        None => candidate.to_string(),
    }
}

/// Rules above, below and under the head; the rows stand close.
const RULED: TableStyle = {
    let rule = LineStyle::none().fill('─').junction('─');
    TableStyle::new().top_border(rule).header_separator(rule).bottom_border(rule)
};

/// An empty table with rules, as wide as the look.
pub fn bare_table(look: &Look) -> Table {
    let mut table = Table::new();
    table.load_style(RULED);
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(look.width);
    if look.color {
        table.enforce_styling()
    } else {
        table.force_no_tty()
    };
    table
}

/// Sets the figures right.
pub fn align(mut table: Table, figures: usize) -> Table {
    for column in 1..=figures {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
            column.set_padding((1, 0));
        }
    }
    table
}

fn bold(text: &str, look: &Look) -> String {
    if look.color { format!("\x1b[1m{text}\x1b[0m") } else { text.to_string() }
}

fn paint(text: &str, color: Color, look: &Look) -> String {
    match (look.color, color) {
        (true, Color::Red) => format!("\x1b[31m{text}\x1b[0m"),
        _ => text.to_string(),
    }
}

/// Breaks a sentence at spaces where it would run over the width.
fn wrapped(text: &str, look: &Look) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is always a last line");
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > look.width as usize {
            lines.push(word.to_string());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines.join("\n")
}
