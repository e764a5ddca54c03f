//! The cost of a panel's memory. In: a panel. Out: a table of time and work.

use comfy_table::Cell;

use super::{Grid, bold, broken, painted, wrapped};
use crate::report::words;
use allocanary_measure::metrics::{Metric, metric_of_all};
use allocanary_measure::summary::{COST, CandidatePoints, Panel};
use allocanary_text::outside::TerminalStyle;

/// Time and work at the largest column: figures, and below them verdicts compared with the first candidate.
pub fn cost(panel: &Panel, look: &TerminalStyle) -> String {
    figures(panel, &COST.map(metric_of_all), "time and work at ", look)
}

/// Figures in some metrics at the largest column, and below them verdicts compared with the first candidate.
pub fn figures(panel: &Panel, wanted: &[&Metric], what: &str, look: &TerminalStyle) -> String {
    let Some((first, last)) = panel.lines.first().zip(panel.columns.len().checked_sub(1)) else { return String::new() };
    let found = |line: &CandidatePoints, metric: &Metric| line.points[last].as_ref()?.get(&metric.name).copied();
    let metrics: Vec<&Metric> =
        wanted.iter().copied().filter(|metric| panel.lines.iter().any(|line| found(line, metric).is_some())).collect();
    if metrics.is_empty() {
        return String::new();
    }
    let figures = || panel.lines.iter().flat_map(|line| metrics.iter().filter_map(|metric| found(line, metric)));
    let (common, n) = words::common(figures().map(|figure| words::count(&figure)));
    let compared =
        |at: usize, metric: &Metric| panel.comparison(&metric.name, at, last).filter(|compared| compared.n.1 > 0);
    let heads = metrics.iter().map(|metric| metric.name.to_string());
    let mut table = Grid::new(std::iter::once("candidate".to_string()).chain(heads));
    for (at, line) in panel.lines.iter().enumerate() {
        let cell = |metric: &&Metric| {
            let Some(figure) = found(line, metric) else { return Cell::new("-") };
            let mut text =
                format!("{} {}", words::median(metric, Some(&figure)), words::interval(metric, Some(&figure)));
            let n = words::count(&figure);
            if common.as_ref() != Some(&n) {
                text.push_str(&format!(" {n}"));
            }
            match compared(at, metric) {
                Some(compared) => {
                    let verdict = words::short_verdict(compared);
                    painted(Cell::new(format!("{}\n{verdict}", text.trim_end())), compared.verdict, look)
                }
                None => Cell::new(text.trim_end()),
            }
        };
        table.row(std::iter::once(Cell::new(broken(&line.name()))).chain(metrics.iter().map(cell)));
    }
    let at = words::column(panel.axis, panel.columns[last]);
    let against = if panel.lines.len() > 1 { format!(", and against {}", first.name()) } else { String::new() };
    let title = format!("{}: {what}{at}, [95 % interval], {n}{against}", panel.title);
    let named = |at: usize, metric: &Metric| format!("{} of {}", metric.name, panel.lines[at].name());
    let all = (1..panel.lines.len()).flat_map(|at| metrics.iter().map(move |metric| (at, *metric)));
    let all = all.filter_map(|(at, metric)| Some((named(at, metric), compared(at, metric)?)));
    let repeats = words::repeats(all).map_or(String::new(), |text| wrapped(&text, look) + "\n");
    format!("\n{}\n{}\n{repeats}", bold(&wrapped(&title, look), look), table.render(look))
}
