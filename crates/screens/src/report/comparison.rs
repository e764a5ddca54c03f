//! The output of `compare`: for each metric and workload a table of verdicts, candidates by columns.
//! In: compared cells. Out: text.

use comfy_table::Cell;

mod answer;
mod github;
mod json;
mod markdown;

use super::table::{self, NarrowFigure};
use super::words;
use allocanary_measure::summary::{Axis, CellKey, GroupComparison, RowComparison, Verdict};
use allocanary_rows::Candidate;
use allocanary_text::outside::TerminalStyle;
use allocanary_text::units::show_share;

pub use answer::answers;
pub use github::annotations;
pub use json::json;
pub use markdown::markdown;

/// `+13 % [-12 %, +40 %], n 10`.
pub fn found(comparison: &GroupComparison) -> String {
    format!("{}, {}", words::changed(comparison), words::count_of(comparison))
}

/// The verdicts, in the order in which they are counted.
const KINDS: [Verdict; 5] = [Verdict::Equal, Verdict::Better, Verdict::Worse, Verdict::Different, Verdict::Undecided];

/// All tables, and then the number of each verdict.
pub fn render(compared: &[RowComparison], look: &TerminalStyle) -> String {
    let mut out = String::new();
    let table = |one: &RowComparison| (one.figure(), one.key.study.clone(), one.key.workload.clone());
    for wanted in distinct(compared, table) {
        let here: Vec<&RowComparison> = compared.iter().filter(|one| table(one) == wanted).collect();
        let about = here[0].metric.about;
        let (figure, _, workload) = wanted;
        let of_runs = match here[0].comparison.quantile {
            Some(q) => format!("; {:.0} % of the runs have at most this", q * 100.0),
            None => String::new(),
        };
        let title = format!("{workload}: {figure} ({about}{of_runs}), new against old, [95 % interval],");
        let (_, n) = words::common(here.iter().map(|one| words::count_of(&one.comparison)));
        let is_narrow = look.width < table::WIDE;
        let sign = if is_narrow { "= " } else { "" };
        let undecided = here.iter().any(|one| one.comparison.verdict == Verdict::Undecided);
        let undecided = if is_narrow && undecided { "? undecided, " } else { "" };
        let margin = show_share(here[0].comparison.margin);
        let key = format!("{sign}equal within {margin}, {undecided}{n}");
        out.push_str(&format!("{}\n{key}\n", table::wrapped(&title, look)));
        out.push_str(&format!("{}\n\n", matrix(&here, look)));
    }
    let count = |verdict| compared.iter().filter(|one| one.comparison.verdict == verdict).count();
    let counts = KINDS.into_iter().filter(|kind| count(*kind) > 0);
    let counts: Vec<String> = counts.map(|kind| format!("{} {}", count(kind), kind.text())).collect();
    let many = if compared.len() == 1 { "comparison" } else { "comparisons" };
    out.push_str(&format!("{} {many}: {}\n", compared.len(), counts.join(", ")));
    if compared.iter().any(|one| words::spikes(&one.comparison).is_some()) {
        out.push_str(&format!("{}\n", table::wrapped(words::SPIKES, look)));
    }
    if let Some(repeats) = words::repeats(compared.iter().map(|one| (one.title(), &one.comparison))) {
        out.push_str(&format!("{}\n", table::wrapped(&repeats, look)));
    }
    out
}

fn matrix(here: &[&RowComparison], look: &TerminalStyle) -> String {
    let column = |key: &CellKey| match key.cores {
        Some(cores) => (Axis::Cores, cores, key.threads.filter(|threads| *threads != cores).unwrap_or(0)),
        None => key.threads.map_or((Axis::Program, 0, 0), |threads| (Axis::Threads, threads, 0)),
    };
    let mut columns = distinct(here, |one| column(&one.key));
    columns.sort_unstable();
    let mut candidates = distinct(here, |one| one.key.candidate.clone());
    let place =
        |candidate: &Candidate| here.iter().filter(|one| one.key.candidate == *candidate).map(|one| one.place).min();
    candidates.sort_by_key(place);

    if look.width < table::WIDE {
        return narrow(here, &candidates, &columns, column, look);
    }
    let mut table = table::Grid::new(std::iter::once("candidate".to_string()).chain(columns.iter().map(head)));
    let (common, _) = words::common(here.iter().map(|one| words::count_of(&one.comparison)));
    for candidate in &candidates {
        let cell = |at: &(Axis, u32, u32)| {
            let found = here.iter().find(|one| one.key.candidate == *candidate && column(&one.key) == *at);
            found.map_or_else(|| Cell::new("-"), |one| table::verdict_cell(&one.comparison, common.as_deref(), look))
        };
        table.row(std::iter::once(Cell::new(table::broken(&candidate.to_string()))).chain(columns.iter().map(cell)));
    }
    table.render(look)
}

/// A column: the axis, its value, and the threads if they differ from the cores.
type Place = (Axis, u32, u32);

fn head((axis, value, threads): &Place) -> String {
    match threads {
        0 => words::column(*axis, *value),
        threads => format!("{}\n{threads} threads", words::column(*axis, *value)),
    }
}

/// The same table for a narrow terminal, with one line for each candidate.
fn narrow(
    here: &[&RowComparison],
    candidates: &[Candidate],
    columns: &[Place],
    column: impl Fn(&CellKey) -> Place,
    look: &TerminalStyle,
) -> String {
    let figure = |candidate: &Candidate, at: &Place| {
        let found = here.iter().find(|one| one.key.candidate == *candidate && column(&one.key) == *at);
        let Some(one) = found.map(|one| &one.comparison) else {
            return NarrowFigure::plain("-".into());
        };
        let change = match one.verdict {
            Verdict::Equal => "=".to_string(),
            Verdict::Undecided => "?".to_string(),
            verdict => format!("{} {}", verdict.text(), words::change(one.ratio())),
        };
        let interval = one
            .interval
            .map_or(String::new(), |(low, high)| format!(" [{}, {}]", words::brief(low), words::brief(high)));
        NarrowFigure { verdict: Some(one.verdict), ..NarrowFigure::plain(format!("{change}{interval}")) }
    };
    let row = |candidate: &Candidate| (candidate.to_string(), columns.iter().map(|at| figure(candidate, at)).collect());
    let heads: Vec<String> = columns.iter().map(|at| head(at).replace('\n', ", ")).collect();
    table::candidates(&heads, candidates.iter().map(row).collect(), look).trim_end().to_string()
}

/// The distinct values of `of`, in order of first occurrence.
fn distinct<T, V: PartialEq>(items: &[T], of: impl Fn(&T) -> V) -> Vec<V> {
    let mut seen = Vec::new();
    for value in items.iter().map(of) {
        if !seen.contains(&value) {
            seen.push(value);
        }
    }
    seen
}
