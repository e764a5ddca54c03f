//! `table`: for a terminal of 80 columns or more. In: findings. Out: tables and sentences.

mod anatomy;
mod cost;
mod ending;
mod grid;
mod names;
mod narrow;

use comfy_table::{Attribute, Cell, Color};
use textwrap::core::display_width;

use super::{figures, words};
use crate::report::format::ReportFormat;
use allocanary_measure::metrics::{Metric, metric_of_all};
use allocanary_measure::summary::{Findings, GroupComparison, Panel, StudySection, Verdict};
use allocanary_text::outside::TerminalStyle;
use allocanary_text::units::Unit;

pub use ending::ending;
pub use grid::Grid;
pub use narrow::{NarrowFigure, candidates};

/// The report.
pub const REPORT: ReportFormat = ReportFormat { name: "table", about: "tables and verdicts for a terminal", render };

/// A terminal of at least this width shows all columns, and rows of several lines.
pub const WIDE: u16 = 120;

/// What the report shows.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// The columns of the tables.
    pub columns: Columns,
    /// The maximum of lines on a terminal with fewer than 120 columns. Tables that do not fit are left out, and the report says so. `None`
    /// means all lines.
    pub lines: Option<usize>,
}

/// The columns of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Columns {
    /// All metrics on a terminal of 120 columns or more. On a narrower one, those that decide.
    #[default]
    Deciding,
    /// All metrics.
    All,
    /// These metrics.
    Named(Vec<String>),
}

fn render(findings: &Findings, look: &TerminalStyle) -> String {
    view(findings, &View::default(), look)
}

/// The report with these columns and lines. The answer and the lines to paste come last, so that they are on the
/// screen.
pub fn view(findings: &Findings, view: &View, look: &TerminalStyle) -> String {
    let ending = ending::ending(findings, look);
    let troubles = troubles(findings, view, look);
    match &view.columns {
        Columns::Deciding if look.width >= WIDE => full(findings, look) + &troubles + &ending,
        Columns::All => full(findings, look) + &troubles + &ending,
        columns => {
            let tables = narrow::tables(findings, columns, look);
            let room = view.lines.map(|lines| lines.saturating_sub(height(&troubles, look) + height(&ending, look)));
            within(tables, room, look) + &troubles + &ending
        }
    }
}

/// The first table, and as many of the following ones as fit into `room` lines. Each has a blank line after it. A line
/// says how many do not fit.
fn within(tables: Vec<String>, room: Option<usize>, look: &TerminalStyle) -> String {
    const LEFT_OUT: usize = 2;
    let heights: Vec<usize> = tables.iter().map(|table| height(table, look) + 1).collect();
    let room = room.unwrap_or(usize::MAX);
    let mut shown = tables.len();
    let taken = |shown: usize| heights[..shown].iter().sum::<usize>() + if shown < tables.len() { LEFT_OUT } else { 0 };
    while shown > 1 && taken(shown) > room {
        shown -= 1;
    }
    let mut out: String = tables[..shown].iter().map(|table| format!("{table}\n")).collect();
    if shown < tables.len() {
        let left = tables.len() - shown;
        let tables = if left == 1 { "One more table:" } else { &format!("{left} more tables:") };
        out.push_str(&format!("{tables} `allocanary report` with the folder of the rows, or report.html.\n\n"));
    }
    out
}

/// The lines that a text takes on the terminal, which wraps the long ones.
fn height(text: &str, look: &TerminalStyle) -> usize {
    let width = usize::from(look.width.max(1));
    text.lines().map(|line| display_width(line).div_ceil(width).max(1)).sum()
}

/// The section's name and question, and a blank line; empty if it has none.
fn heading(section: &StudySection, look: &TerminalStyle) -> String {
    let heading = figures::heading(section);
    if heading.is_empty() {
        return heading;
    }
    // The question of a single study is plain text. With several studies each question is a heading.
    let heading = wrapped(&heading, look);
    format!("{}\n\n", if section.name.is_some() { bold(&heading, look) } else { heading })
}

/// What failed, and other problems. If lines are limited, only the first few.
fn troubles(findings: &Findings, view: &View, look: &TerminalStyle) -> String {
    const MOST: usize = 5;
    let troubles = words::troubles(findings);
    let is_short = view.lines.is_some() && look.width < WIDE;
    let shown = if is_short { troubles.len().min(MOST) } else { troubles.len() };
    let mut out = String::new();
    for trouble in &troubles[..shown] {
        // A failure stays on one line, so that it can be searched for.
        let text = if findings.notes.contains(trouble) { wrapped(trouble, look) } else { trouble.clone() };
        out.push_str(&format!("{}\n", paint(&text, Color::Red, look)));
    }
    if shown < troubles.len() {
        out.push_str(&format!("and {} more of these: `allocanary report` names them all\n", troubles.len() - shown));
    }
    if out.is_empty() { out } else { out + "\n" }
}

/// All tables with all columns.
fn full(findings: &Findings, look: &TerminalStyle) -> String {
    let mut out = String::new();
    for section in &findings.sections {
        out.push_str(&heading(section, look));
        if section.is_program() {
            let metrics: Vec<&Metric> = section.about.metrics.iter().collect();
            section.panels.iter().for_each(|panel| out.push_str(&cost::figures(panel, &metrics, "", look)));
            out.push_str(&format!("{}\n", wrapped(&figures::meanings(section), look)));
            section.panels.iter().for_each(|panel| out.push_str(&anatomy::anatomy(panel, look)));
            out.push('\n');
        } else if section.about.metrics.is_empty() {
            section.panels.iter().for_each(|panel| out.push_str(&whole(panel, look)));
        } else {
            out.push_str(&format!("{}\n", own(section, look)));
            let (_, n) = words::common(own_counts(section));
            out.push_str(&format!("{}\n", wrapped(&format!("{} {n}.", figures::key(section)), look)));
            out.push_str(&format!("{}\n", wrapped(&figures::meanings(section), look)));
            for line in figures::settled(section) {
                out.push_str(&format!("{}\n", wrapped(&line, look)));
            }
            // The bars of many panels are for a page. A terminal shows bars only if there is one panel, as for a
            // replay.
            if let [panel] = section.panels.as_slice() {
                out.push_str(&anatomy::anatomy(panel, look));
            }
            out.push('\n');
        }
        for remark in words::remarks(section) {
            out.push_str(&format!("{}\n\n", paint(&wrapped(&remark, look), Color::Red, look)));
        }
        let published = figures::published(section);
        if !published.is_empty() {
            out.push_str(&format!("{}\n", bold("Published", look)));
            let hanging = TerminalStyle { width: look.width.saturating_sub(2), ..*look };
            let item = |line: &String| format!("- {}\n", wrapped(line, &hanging).replace('\n', "\n  "));
            out.extend(published.iter().map(item));
            out.push('\n');
        }
    }
    out
}

/// The tables of a panel: memory, other metrics, verdicts.
fn whole(panel: &Panel, look: &TerminalStyle) -> String {
    let requested = words::requested(panel).map_or(String::new(), |bytes| format!(", {bytes} requested"));
    let title = format!("{}: MiB resident when idle, by {}{requested}", panel.title, panel.axis.name());
    let mut out = format!("{}\n{}\n", bold(&wrapped(&title, look), look), memory(panel, look));
    let ratio = if requested.is_empty() { "" } else { "resident / requested, " };
    let (_, n) = words::common(words::counts(panel, "resident"));
    let key = format!("median, {ratio}[95 % interval of the median]; * least in its column; {n}");
    out.push_str(&format!("{}\n", wrapped(&key, look)));
    if let Some(headline) = words::headline(panel) {
        out.push_str(&format!("{}\n", wrapped(&headline, look)));
    }
    if let Some(last) = panel.columns.last() {
        let title = format!("{}: the rest at {}", panel.title, words::column(panel.axis, *last));
        out.push_str(&format!("\n{}\n{}\n", bold(&wrapped(&title, look), look), rest(panel, look)));
    }
    out.push_str(&verdicts(panel, look));
    out.push_str(&cost::cost(panel, look));
    out.push_str(&anatomy::anatomy(panel, look));
    out.push('\n');
    out
}

/// The metrics that the study names: one row for each workload, and below it one row for each candidate.
fn own(section: &StudySection, look: &TerminalStyle) -> String {
    let heads = section.about.metrics.iter().map(|metric| metric.name.to_string());
    let mut table = Grid::new(std::iter::once("candidate".to_string()).chain(heads));
    let (common, _) = words::common(own_counts(section));
    for block in figures::blocks(section) {
        table.title(block.title);
        for row in block.rows {
            let figures = row.figures.iter().map(|figure| {
                // Without a mark there is a blank, so that the numbers are aligned.
                let cell = Cell::new(format!("{} {:1}", figure.median, figure.mark));
                figure.verdict.map_or(cell.clone(), |verdict| painted(cell, verdict, look))
            });
            let n = format!("n={}", row.n);
            let n = if common.as_ref() == Some(&n) { String::new() } else { format!("\n  {n}") };
            let name = Cell::new(format!("  {}{n}", broken(&row.candidate).replace('\n', "\n  ")));
            table.row(std::iter::once(name).chain(figures));
        }
    }
    table.render(look)
}

/// The numbers of samples in the rows of a study's own table.
fn own_counts(section: &StudySection) -> impl Iterator<Item = String> {
    figures::blocks(section).into_iter().flat_map(|block| block.rows).map(|row| format!("n={}", row.n))
}

/// A row for each candidate: at each column the median, and its ratio to the requested bytes, above the interval.
fn memory(panel: &Panel, look: &TerminalStyle) -> String {
    let heads = panel.columns.iter().map(|value| words::column(panel.axis, *value));
    let mut table = Grid::new(std::iter::once("candidate".to_string()).chain(heads));
    let (common, _) = words::common(words::counts(panel, "resident"));
    for (at, line) in panel.lines.iter().enumerate() {
        let mut cells = vec![Cell::new(broken(&line.name()))];
        for (column, point) in line.points.iter().enumerate() {
            let Some(point) = point else {
                cells.push(Cell::new("-"));
                continue;
            };
            let best = words::starred(panel, column, "resident") == Some(at);
            let text = match point.get("resident") {
                None => format!("{} failed", point.failed),
                Some(rss) => {
                    let ratio =
                        point.get(words::PER_REQUESTED).map_or(String::new(), |ratio| Unit::Ratio.show(ratio.median));
                    let star = if best { "*" } else { "" };
                    let median = words::mebibytes(rss.median);
                    let interval = rss.interval().map_or(String::new(), |(low, high)| {
                        format!("\n[{}–{}]", words::mebibytes(low), words::mebibytes(high))
                    });
                    let n = words::count(rss);
                    let n = if common.as_ref() == Some(&n) { String::new() } else { format!("\n{n}") };
                    format!("{star}{median} {ratio}{interval}{n}")
                }
            };
            let cell = Cell::new(text);
            let painted = best && look.color;
            cells.push(if painted { cell.fg(Color::Green).add_attribute(Attribute::Bold) } else { cell });
        }
        table.row(cells);
    }
    table.render(look)
}

/// The other metrics, at the largest column.
fn rest(panel: &Panel, look: &TerminalStyle) -> String {
    let columns = ["peak_resident", "resident_purged", "faults"];
    let heads = ["candidate", "n", "peak", "purged", "faults"];
    let mut table = Grid::new(heads.map(String::from));
    for line in &panel.lines {
        let point = line.points.last().and_then(Option::as_ref);
        let figure = |metric: &&str| words::median(metric_of_all(metric), point.and_then(|point| point.get(metric)));
        let names = [line.name(), point.map_or("-".into(), |point| point.n().to_string())];
        table.row(names.into_iter().chain(columns.iter().map(figure)).map(Cell::new));
    }
    table.render(look)
}

/// A verdict for each candidate compared with the first, at each column.
fn verdicts(panel: &Panel, look: &TerminalStyle) -> String {
    let Some(first) = panel.lines.first().filter(|_| panel.lines.len() > 1) else { return String::new() };
    let heads = panel.columns.iter().map(|value| words::column(panel.axis, *value));
    let mut table = Grid::new(std::iter::once(format!("against {}", first.name())).chain(heads));
    let (common, n) = words::common(panel.comparisons.iter().map(|(_, _, compared)| words::count_of(compared)));
    for (at, line) in panel.lines.iter().enumerate().skip(1) {
        let cell = |column: usize| {
            let found = panel.comparisons.iter().find(|(line, at_column, _)| (*line, *at_column) == (at, column));
            let Some((_, _, comparison)) = found else { return Cell::new("-") };
            verdict_cell(comparison, common.as_deref(), look)
        };
        let cells = (0..panel.columns.len()).map(cell);
        table.row(std::iter::once(Cell::new(broken(&line.name()))).chain(cells));
    }
    let title = format!("{}: resident memory when idle, change in % (or times, x), [95 % interval], {n}", panel.title);
    let named = |line: usize, at: usize| {
        format!("{}, {}", panel.lines[line].name(), words::column(panel.axis, panel.columns[at]))
    };
    let repeats = words::repeats(panel.comparisons.iter().map(|(line, at, compared)| (named(*line, *at), compared)));
    let repeats = repeats.map_or(String::new(), |repeats| wrapped(&repeats, look) + "\n");
    format!("\n{}\n{}\n{repeats}", bold(&wrapped(&title, look), look), table.render(look))
}

/// A verdict in its colour. Its number of samples is shown if it differs from `common`, that of the table.
pub fn verdict_cell(comparison: &GroupComparison, common: Option<&str>, look: &TerminalStyle) -> Cell {
    let n = words::count_of(comparison);
    let said = common == Some(n.as_str()) || comparison.interval.is_none();
    let n = if said { String::new() } else { format!("\n{n}") };
    painted(Cell::new(words::short_verdict(comparison) + &n), comparison.verdict, look)
}

fn painted(cell: Cell, verdict: Verdict, look: &TerminalStyle) -> Cell {
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

fn bold(text: &str, look: &TerminalStyle) -> String {
    if look.color { format!("\x1b[1m{text}\x1b[0m") } else { text.to_string() }
}

fn paint(text: &str, color: Color, look: &TerminalStyle) -> String {
    match (look.color, color) {
        (true, Color::Red) => format!("\x1b[31m{text}\x1b[0m"),
        _ => text.to_string(),
    }
}

/// Breaks a sentence at spaces if it is wider than the terminal.
pub fn wrapped(text: &str, look: &TerminalStyle) -> String {
    crate::draw::wrapped(text, look.width.into())
}
