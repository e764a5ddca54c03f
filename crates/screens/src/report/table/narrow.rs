//! Tables for a terminal of 80 columns: one or two lines for each candidate, with the metrics that decide. In: findings. Out: one
//! text for each table, so that a caller can leave some out.

use comfy_table::Cell;
use textwrap::core::display_width;

use super::grid::Grid;
use super::names::shortened;
use super::{Columns, bold, heading, painted, wrapped};
use crate::report::{anatomies, figures, words};
use allocanary_measure::metrics::{ALL as METRICS, Metric, metric_of_all};
use allocanary_measure::summary::{Findings, GroupComparison, Panel, Recommendation, StudySection, Verdict};
use allocanary_text::outside::TerminalStyle;
use allocanary_text::units::Unit;

/// A candidate and its figures.
struct Row {
    name: String,
    figures: Vec<NarrowFigure>,
}

/// A figure of a candidate.
pub struct NarrowFigure {
    /// `47.0 MiB`.
    pub median: String,
    /// `-57 %`; empty for the candidate with which the others are compared.
    pub change: String,
    /// Its colour.
    pub verdict: Option<Verdict>,
}

impl NarrowFigure {
    /// A text without a change.
    pub fn plain(median: String) -> NarrowFigure {
        NarrowFigure { median, change: String::new(), verdict: None }
    }

    /// The cell. If other figures of its column have a change, it has space for one, so that the medians are aligned.
    fn cell(&self, has_change: bool, look: &TerminalStyle) -> Cell {
        let cell = match has_change {
            true => Cell::new(format!("{} {:>CHANGE$}", self.median, self.change)),
            false => Cell::new(&self.median),
        };
        self.verdict.map_or(cell.clone(), |verdict| painted(cell, verdict, look))
    }
}

/// Rows below a title.
type Block = (Option<String>, Vec<Row>);

/// The maximum of metrics in a table of the deciding columns.
const MOST: usize = 4;

/// The tables of all sections, in order. The first text of a section begins with its heading.
pub fn tables(findings: &Findings, columns: &Columns, look: &TerminalStyle) -> Vec<String> {
    let mut all = Vec::new();
    for section in &findings.sections {
        let mut own = match (columns, section.about.metrics.is_empty()) {
            (Columns::Deciding, true) if !section.is_program() => workload(section, look),
            _ => metrics(section, &chosen(section, columns), look),
        };
        own.extend(published(section, look));
        if let Some(first) = own.first_mut() {
            first.insert_str(0, &heading(section, look));
        }
        all.extend(own);
    }
    all
}

/// The metrics of the columns that the user names. Without these, the metrics that decide: the one to reduce, memory, those
/// that the user limits, and time or throughput.
fn chosen(section: &StudySection, columns: &Columns) -> Vec<Metric> {
    let known = |name: &str| {
        let own = section.about.metrics.iter().find(|metric| metric.name == *name);
        own.or_else(|| METRICS.iter().find(|metric| metric.name == *name)).cloned()
    };
    if let Columns::Named(names) = columns {
        return names.iter().filter_map(|name| known(name)).collect();
    }
    let deciding = section.panels.iter().find_map(|panel| Recommendation::of(section, panel)).map(|found| found.metric);
    let is_memory = |metric: &Metric| metric.unit == Unit::Bytes;
    let memory = section.about.metrics.iter().find(|metric| is_memory(metric)).cloned();
    let memory = memory.filter(|_| !deciding.as_ref().is_some_and(is_memory));
    let time = ["wall", "throughput", "p99", "per_op", "cpu"].into_iter().filter_map(known);
    let limited = section.within.iter().filter_map(|(name, _)| known(name));
    let rest = section.about.metrics.iter().cloned();
    let mut all: Vec<Metric> = Vec::new();
    for metric in deciding.into_iter().chain(memory).chain(limited).chain(time).chain(rest) {
        if all.len() < MOST.max(1 + section.within.len())
            && !all.iter().any(|known| known.name == metric.name)
            && has(section, &metric)
        {
            all.push(metric);
        }
    }
    all
}

fn has(section: &StudySection, metric: &Metric) -> bool {
    let points =
        section.panels.iter().flat_map(|panel| panel.lines.iter().flat_map(|line| line.points.iter().flatten()));
    points.into_iter().any(|point| point.get(&metric.name).is_some())
}

/// One table of metrics for the section: a block for each workload at each of its columns.
fn metrics(section: &StudySection, metrics: &[Metric], look: &TerminalStyle) -> Vec<String> {
    if metrics.is_empty() {
        return Vec::new();
    }
    let all: Vec<_> = figures::each(section).collect();
    let counts = all.iter().flat_map(|(_, panel, at)| {
        panel.lines.iter().filter_map(|line| Some(format!("n={}", line.points[*at].as_ref()?.n())))
    });
    let (common, n) = words::common(counts);
    let mut compared: Vec<&GroupComparison> = Vec::new();
    let mut blocks: Vec<Block> = Vec::new();
    for (title, panel, at) in &all {
        let measured = (0..panel.lines.len()).filter(|line| panel.lines[*line].points[*at].is_some());
        let row = |line: usize| {
            compared.extend(metrics.iter().filter_map(|metric| panel.comparison(&metric.name, line, *at)));
            let figures = metrics.iter().map(|metric| figure(panel, line, *at, metric)).collect();
            Row { name: named(panel, line, *at, common.as_deref()), figures }
        };
        blocks.push((Some(title.clone()), measured.map(row).collect()));
    }
    let mut title = None;
    if let [(only, _)] = blocks.as_mut_slice() {
        // A single block has its title above the table.
        title = only.take();
    }
    let heads: Vec<String> = metrics.iter().map(|metric| metric.name.to_string()).collect();
    let (table, common) = fitted(&heads, &blocks, 2, look);
    let first = section.panels.iter().find_map(|panel| panel.lines.first()).map_or(String::new(), |line| line.name());
    let meanings: Vec<String> = metrics.iter().map(|metric| format!("{}: {}", metric.name, metric.about)).collect();
    let mut below = vec![key(&compared, &n, &first)];
    below.extend(common.map(|common| format!("… is {common}.")));
    below.push(format!("{}.", meanings.join("; ")));
    let title = title.map_or(String::new(), |title| format!("{}\n", bold(&wrapped(&title, look), look)));
    let mut out = vec![format!("{title}{table}\n{}\n", wrapped(&below.join(" "), look))];
    let said: Vec<String> = all.iter().filter_map(|(_, panel, at)| most_of(panel, *at)).collect();
    let said: Vec<String> = figures::settled(section).into_iter().chain(said).collect();
    if let ([_], [only]) = (section.panels.as_slice(), said.as_slice()) {
        out.push(format!("{}\n", wrapped(only, look)));
    } else if !figures::settled(section).is_empty() {
        out.push(figures::settled(section).iter().map(|line| format!("{}\n", wrapped(line, look))).collect());
    }
    out
}

/// The tables of a built-in workload whose study names no metrics: memory when idle by threads or cores, then time and
/// work.
fn workload(section: &StudySection, look: &TerminalStyle) -> Vec<String> {
    let mut out = Vec::new();
    for panel in &section.panels {
        let Some(last) = panel.columns.len().checked_sub(1) else { continue };
        let rss = metric_of_all("resident");
        let first = panel.lines.first().map_or(String::new(), |line| line.name());
        let requested = words::requested(panel).map_or(String::new(), |bytes| format!(", {bytes} requested"));
        let title = format!("{}: MiB resident when idle, by {}{requested}", panel.title, panel.axis.name());
        let (common, n) = words::common(words::counts(panel, "resident"));
        let mut compared = Vec::new();
        let mut rows = Vec::new();
        for line in 0..panel.lines.len() {
            compared.extend((0..=last).filter_map(|at| panel.comparison("resident", line, at)));
            let figures = (0..=last).map(|at| memory(panel, line, at, rss)).collect();
            rows.push(Row { name: named(panel, line, last, common.as_deref()), figures });
        }
        let heads: Vec<String> = panel.columns.iter().map(|value| words::column(panel.axis, *value)).collect();
        let (table, shared) = fitted(&heads, &[(None, rows)], heads.len(), look);
        let shared = shared.map_or(String::new(), |common| format!(" … is {common}."));
        let said = words::headline(panel).map_or(String::new(), |text| format!(" {text}"));
        let below = wrapped(&format!("{}{shared}{said}", key(&compared, &n, &first)), look);
        out.push(format!("{}\n{table}\n{below}\n", bold(&wrapped(&title, look), look)));

        let wanted = ["throughput", "p99", "cpu", "peak_resident"].map(metric_of_all);
        let found = |metric: &&&Metric| {
            panel
                .lines
                .iter()
                .any(|line| line.points[last].as_ref().is_some_and(|point| point.get(&metric.name).is_some()))
        };
        let wanted: Vec<&Metric> = wanted.iter().filter(found).copied().collect();
        if !wanted.is_empty() {
            let row = |line: usize| Row {
                name: named(panel, line, last, common.as_deref()),
                figures: wanted.iter().map(|metric| figure(panel, line, last, metric)).collect(),
            };
            let rows: Vec<Row> = (0..panel.lines.len()).map(row).collect();
            let heads: Vec<String> = wanted.iter().map(|metric| metric.name.to_string()).collect();
            let (table, _) = fitted(&heads, &[(None, rows)], 2, look);
            let title = format!("{}: time and work at {}", panel.title, words::column(panel.axis, panel.columns[last]));
            out.push(format!("{}\n{table}\n", bold(&wrapped(&title, look), look)));
        }
        out.extend(most_of(panel, last).map(|text| format!("{}\n", wrapped(&text, look))));
    }
    out
}

fn published(section: &StudySection, look: &TerminalStyle) -> Option<String> {
    let published = figures::published(section);
    if published.is_empty() {
        return None;
    }
    let hanging = TerminalStyle { width: look.width.saturating_sub(2), ..*look };
    let item = |line: &String| format!("- {}\n", wrapped(line, &hanging).replace('\n', "\n  "));
    Some(format!("{}\n{}", bold("Published", look), published.iter().map(item).collect::<String>()))
}

/// A sentence that says where most of one candidate's memory is. It is the candidate with the most memory in the part that depends
/// on the allocator.
fn most_of(panel: &Panel, column: usize) -> Option<String> {
    let found = anatomies::at(panel, column);
    let (_, line, anatomy) = anatomies::fullest(&found)?;
    anatomies::sentence(&line.name(), anatomy)
}

/// The name, and the number of its samples if that differs from the `common` one.
fn named(panel: &Panel, line: usize, column: usize, common: Option<&str>) -> String {
    let name = panel.lines[line].name();
    match panel.lines[line].points[column].as_ref().map(|point| format!("n={}", point.n())) {
        Some(n) if common.is_some_and(|common| common != n) && n != "n=0" => format!("{name} ({n})"),
        _ => name,
    }
}

/// `47.0 MiB -57 %`: the median, and the change against the first candidate if it is certain.
fn figure(panel: &Panel, line: usize, column: usize, metric: &Metric) -> NarrowFigure {
    let point = panel.lines[line].points[column].as_ref();
    match point.map(|point| (point.get(&metric.name), point.failed)) {
        Some((Some(found), _)) => {
            changed(words::median(metric, Some(found)), panel.comparison(&metric.name, line, column))
        }
        Some((None, failed @ 1..)) => NarrowFigure::plain(format!("{failed} failed")),
        _ => NarrowFigure::plain("-".into()),
    }
}

/// The same as [`figure`], in MiB without the unit, which is in the title.
fn memory(panel: &Panel, line: usize, column: usize, rss: &Metric) -> NarrowFigure {
    match panel.lines[line].points[column].as_ref().and_then(|point| point.get(&rss.name)) {
        Some(found) => changed(words::mebibytes(found.median), panel.comparison(&rss.name, line, column)),
        None => figure(panel, line, column, rss),
    }
}

/// The width of a change, such as `-8.6 %`.
const CHANGE: usize = 6;

fn changed(median: String, compared: Option<&GroupComparison>) -> NarrowFigure {
    let Some(one) = compared else { return NarrowFigure::plain(median) };
    let change = match one.verdict {
        Verdict::Equal => "=".into(),
        Verdict::Undecided => "?".into(),
        Verdict::Different if words::spikes(one).is_some() => "!".into(),
        _ if !one.ratio().is_finite() => "from 0".into(),
        _ => words::change(one.ratio()),
    };
    NarrowFigure { median, change, verdict: Some(one.verdict) }
}

/// A table with one or two lines for each candidate, and a line that says what `…` in its names stands for.
pub fn candidates(heads: &[String], rows: Vec<(String, Vec<NarrowFigure>)>, look: &TerminalStyle) -> String {
    let row = |(name, figures): (String, Vec<NarrowFigure>)| Row { name, figures };
    let (table, common) = fitted(heads, &[(None, rows.into_iter().map(row).collect())], heads.len(), look);
    let common = common.map_or(String::new(), |common| format!("{}\n", wrapped(&format!("… is {common}."), look)));
    format!("{table}\n{common}")
}

/// The meaning of the marks and words in the cells.
fn key(compared: &[&GroupComparison], n: &str, first: &str) -> String {
    let mut out = format!("Medians, {n}");
    if compared.is_empty() {
        return out + ".";
    }
    out.push_str(&format!("; changes against {first} where they are certain"));
    let has = |verdict| compared.iter().any(|one| one.verdict == verdict);
    if has(Verdict::Equal) {
        out.push_str("; = equal within 2 %");
    }
    if has(Verdict::Undecided) {
        out.push_str("; ? undecided: the runs differ too much, or are too few");
    }
    if compared.iter().any(|one| one.verdict == Verdict::Different && words::spikes(one).is_some()) {
        out.push_str("; ! some runs of one side lie far beyond the other side's");
    }
    out + "."
}

/// The table, and the text that `…` in its names stands for. If possible, a candidate has one line. To make it fit, names are shortened.
/// Then the last columns are left out, but `least` of them stay. If it still does not fit, a candidate's figures are below its name.
fn fitted(heads: &[String], blocks: &[Block], least: usize, look: &TerminalStyle) -> (String, Option<String>) {
    let rows = || blocks.iter().flat_map(|(_, rows)| rows);
    let has_change: Vec<bool> = (0..heads.len())
        .map(|column| rows().any(|row| row.figures.get(column).is_some_and(|figure| !figure.change.is_empty())))
        .collect();
    // The header is aligned with the medians.
    let heads: Vec<String> = heads
        .iter()
        .zip(&has_change)
        .map(|(head, has_change)| if *has_change { format!("{head} {:CHANGE$}", "") } else { head.clone() })
        .collect();
    let cells = |row: &Row| -> Vec<Cell> {
        row.figures.iter().zip(&has_change).map(|(figure, has_change)| figure.cell(*has_change, look)).collect()
    };
    let width = |column: usize| {
        let own = rows().filter_map(|row| cells(row).get(column).map(|cell| display_width(&cell.content())));
        // One blank before the figure, and another one between two columns.
        2 + own.chain([display_width(&heads[column])]).max().unwrap_or(0)
    };
    let names: Vec<String> = rows().map(|row| indented(blocks, &row.name)).collect();
    // The names' column has a blank on both sides.
    let room_beside =
        |columns: usize| usize::from(look.width).saturating_sub(2 + (0..columns).map(width).sum::<usize>());
    let fits = (least.min(heads.len())..=heads.len())
        .rev()
        .find_map(|columns| Some((columns, shortened(&names, room_beside(columns))?)));
    if let Some((columns, (names, common))) = fits {
        let mut grid = Grid::new(std::iter::once("candidate".to_string()).chain(heads[..columns].iter().cloned()));
        let mut names = names.into_iter();
        for (title, rows) in blocks {
            title.iter().for_each(|title| grid.title(title.clone()));
            for row in rows {
                let name = Cell::new(names.next().unwrap_or_default());
                grid.row(std::iter::once(name).chain(cells(row).into_iter().take(columns)));
            }
        }
        return (grid.render(look), common);
    }
    let fits = (1..=heads.len()).rev().find(|columns| room_beside(*columns) > 0).unwrap_or(1);
    let columns = fits.max(least.min(heads.len()));
    let mut grid = Grid::new(std::iter::once(String::new()).chain(heads[..columns].iter().cloned()));
    for (title, rows) in blocks {
        title.iter().for_each(|title| grid.title(title.clone()));
        for row in rows {
            grid.title(indented(blocks, &row.name));
            grid.row(std::iter::once(Cell::new("")).chain(cells(row).into_iter().take(columns)));
        }
    }
    (grid.render(look), None)
}

/// Below a title, names are indented.
fn indented(blocks: &[Block], name: &str) -> String {
    if blocks.iter().any(|(title, _)| title.is_some()) { format!("  {name}") } else { name.to_string() }
}
