//! A study's own table: every workload's candidates by the metrics that the study names. In: a section. Out: texts and
//! marks, which each report formats in its own way.

use super::words;
use allocanary_measure::metrics::Metric;
use allocanary_measure::summary::{GroupComparison, Panel, Point, StudySection, Verdict};

/// The candidates of one workload at one column.
pub struct FigureBlock {
    /// `variant=boxes`, or `variant=boxes, 4 threads`.
    pub title: String,
    /// One row for each candidate. The others are compared with the first.
    pub rows: Vec<CandidateRow>,
}

/// One candidate.
pub struct CandidateRow {
    /// The candidate's name in its panel.
    pub candidate: String,
    /// Number of samples.
    pub n: usize,
    /// A figure for each metric.
    pub figures: Vec<CandidateMedian>,
}

/// One median.
pub struct CandidateMedian {
    /// `412 ms`, or the number of failed cells, or `-`.
    pub median: String,
    /// `[400, 431]`; empty if there is no median.
    pub interval: String,
    /// A mark if it is certainly less or certainly more than the first candidate.
    pub mark: &'static str,
    /// Whether the change is better, worse, or neither.
    pub verdict: Option<Verdict>,
}

/// The meaning of the marks.
const KEY: &str = "Medians. ▼ less and ▲ more than the first candidate above; = equal within 2 %; ?: undecided, the \
                   samples spread too far or are too few.";

/// The meaning of the marks in a section. The mark for spikes is explained only if it occurs.
pub fn key(section: &StudySection) -> String {
    let figures = || blocks(section).into_iter().flat_map(|block| block.rows).flat_map(|row| row.figures);
    match figures().any(|figure| figure.mark == SPIKES) {
        true => format!("{KEY} {SPIKES}: some runs of one side lie far beyond the other side's."),
        false => KEY.to_string(),
    }
}

/// The mark of a candidate if it or the first candidate has spikes.
const SPIKES: &str = "!";

/// The meaning of the metrics in the header.
pub fn meanings(section: &StudySection) -> String {
    let meanings: Vec<String> =
        section.about.metrics.iter().map(|metric| format!("{}: {}", metric.name, metric.about)).collect();
    format!("{}.", meanings.join("; "))
}

/// Names the candidates that returned their memory at every idle reading: one line for each block of a study that shows
/// its worst idle reading.
pub fn settled(section: &StudySection) -> Vec<String> {
    let shown = section.about.metrics.iter().any(|metric| metric.name == "worst_idle");
    let blocks = each(section).filter(|_| shown);
    blocks.filter_map(|(title, panel, at)| Some(format!("{title}: {}", words::settled(panel, at)?))).collect()
}

/// One line for each published figure: who measured it, and what it is.
pub fn published(section: &StudySection) -> Vec<String> {
    let line = |one: &allocanary_measure::summary::Published| format!("{}: {}: {}", one.by, one.what, one.figure);
    section.about.published.iter().map(line).collect()
}

/// The section's name and question in one line, if it has them.
pub fn heading(section: &StudySection) -> String {
    let question = section.about.question.trim();
    match &section.name {
        Some(name) if question.is_empty() => name.clone(),
        Some(name) => format!("{name}: {question}"),
        None => question.to_string(),
    }
}

/// All blocks of a section, in its study's order.
pub fn blocks(section: &StudySection) -> Vec<FigureBlock> {
    let block = |(title, panel, at)| FigureBlock { title, rows: rows(panel, at, &section.about.metrics) };
    each(section).map(block).collect()
}

/// Every column of every panel, with its title.
pub fn each(section: &StudySection) -> impl Iterator<Item = (String, &Panel, usize)> {
    let columns = section.panels.iter().flat_map(|panel| panel.columns.iter().map(|value| (panel.axis, *value)));
    let mut columns: Vec<_> = columns.collect();
    columns.sort_unstable();
    columns.dedup();
    let several = columns.len() > 1;
    let all = section.panels.iter().flat_map(|panel| (0..panel.columns.len()).map(move |at| (panel, at)));
    all.map(move |(panel, at)| {
        let mut title = title(section, panel);
        if several {
            title.push_str(&format!(", {}", words::column(panel.axis, panel.columns[at])));
        }
        (title, panel, at)
    })
}

/// The panel's title without the workload's name, if the study has the same name: `variant=boxes`.
fn title(section: &StudySection, panel: &Panel) -> String {
    let rest = section.name.as_ref().and_then(|name| panel.title.strip_prefix(name)?.strip_prefix(':'));
    rest.map_or_else(|| panel.title.clone(), |rest| rest.replace(", ", ",").replace(',', ", "))
}

fn rows(panel: &Panel, column: usize, metrics: &[Metric]) -> Vec<CandidateRow> {
    let measured = panel.lines.iter().enumerate().filter(|(_, line)| line.points[column].is_some());
    measured
        .map(|(at, line)| CandidateRow {
            candidate: line.name(),
            n: line.points[column].as_ref().map_or(0, Point::n),
            figures: metrics.iter().map(|metric| figure(panel, at, column, metric)).collect(),
        })
        .collect()
}

fn figure(panel: &Panel, line: usize, column: usize, metric: &Metric) -> CandidateMedian {
    let point = panel.lines[line].points[column].as_ref();
    let found = point.and_then(|point| point.get(&metric.name));
    if found.is_none() {
        let failed = point.map_or(0, |point| point.failed);
        let median = if failed > 0 { format!("{failed} failed") } else { "-".into() };
        return CandidateMedian { median, interval: String::new(), mark: "", verdict: None };
    }
    // If the first candidate's figure is 0, another 0 is equal, and any other value is infinitely more. If the first
    // candidate has no figure, the result is unknown.
    let first = panel.lines[0].points[column].as_ref().and_then(|point| point.get(&metric.name));
    let comparison = panel.comparison(&metric.name, line, column);
    let comparison = comparison.filter(|comparison| first.is_none() || !comparison.ratio().is_nan());
    CandidateMedian {
        median: words::median(metric, found),
        interval: words::interval(metric, found),
        mark: comparison.map_or("", mark),
        verdict: comparison.map(|comparison| comparison.verdict),
    }
}

fn mark(comparison: &GroupComparison) -> &'static str {
    match comparison.verdict {
        Verdict::Undecided => "?",
        Verdict::Equal => "=",
        Verdict::Different if words::spikes(comparison).is_some() => SPIKES,
        _ if comparison.ratio() < 1.0 => "▼",
        _ => "▲",
    }
}
