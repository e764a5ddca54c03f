//! The finalists of a search. Out: their table, and the verdict of each.

use allocanary_measure::metrics::{Metric, MetricName};
use allocanary_measure::summary::{CellRepeats, GroupComparison, MedianEstimate, Verdict};
use allocanary_rows::Candidate;
use allocanary_screens::draw::wrapped;
use allocanary_screens::report::table::{self, NarrowFigure};
use allocanary_screens::report::words;
use allocanary_study::search::Searched;
use allocanary_study::search::proof::{Finalist, Standing};
use allocanary_text::outside::TerminalStyle;

/// The table: a line for each finalist, with figures, and changes against the present candidate. `text` says what was measured.
pub fn table(found: &Searched, text: &str, look: &TerminalStyle) -> String {
    let metrics: Vec<&Metric> = found.goal.wanted().collect();
    let row = |(candidate, group): &(Candidate, CellRepeats)| {
        let finalist = found.finalists.iter().find(|finalist| finalist.candidate == *candidate);
        let figures = metrics.iter().enumerate().map(|(at, metric)| {
            let estimate = MedianEstimate::of(group.values_of(&metric.name));
            let change = finalist.and_then(|finalist| match at.checked_sub(1) {
                None => Some(in_objective(finalist)),
                Some(guard) => finalist.guards.get(guard).map(in_guard),
            });
            let (change, verdict) = change.unzip();
            NarrowFigure {
                median: words::median(metric, estimate.as_ref()),
                change: change.unwrap_or_default(),
                verdict,
            }
        });
        let note = match finalist {
            None if *candidate == found.present => " (what you have)".to_string(),
            Some(finalist) if finalist.failed.0 > 0 => format!(" ({} failed)", finalist.failed.0),
            _ => String::new(),
        };
        (format!("{candidate}{note}"), figures.collect())
    };
    let heads: Vec<String> = metrics.iter().map(|metric| metric.name.to_string()).collect();
    let table = table::candidates(&heads, found.fresh.iter().map(row).collect(), look);
    let n = found.fresh.first().map_or(0, |(_, group)| group.values_of(&found.goal.objective.name).len());
    let mut key = format!("Medians of n={n} fresh processes, and changes against what you have");
    if found.finalists.iter().any(|finalist| verdict(finalist) == Verdict::Undecided) {
        key.push_str("; ? undecided");
    }
    let has = |wanted| found.finalists.iter().flat_map(|one| &one.guards).any(|(_, _, standing)| *standing == wanted);
    if has(Standing::Open) {
        key.push_str("; ? after a change: not certain to be within its limit");
    }
    if has(Standing::Exceeded) {
        key.push_str("; ! beyond its limit");
    }
    let title = wrapped(&format!("Finalists ({text}):"), look.width.into());
    format!("{title}\n{table}{}\n", wrapped(&format!("{key}."), look.width.into()))
}

/// The change in the objective, such as `-78 %`. A change that is not significant among all finalists is undecided.
fn in_objective(finalist: &Finalist) -> (String, Verdict) {
    match verdict(finalist) {
        Verdict::Undecided => ("?".into(), Verdict::Undecided),
        Verdict::Equal => ("=".into(), Verdict::Equal),
        other => (words::change(finalist.objective.ratio()), other),
    }
}

/// The change in a guard: `-1.0 %`, `+4.0 %?` if it is not certain to be within the limit, `+50 %!` if it exceeds the limit.
fn in_guard((_, compared, standing): &(MetricName, GroupComparison, Standing)) -> (String, Verdict) {
    let change = words::change(compared.ratio());
    match standing {
        Standing::Kept => (change, Verdict::Equal),
        Standing::Open => (format!("{change}?"), Verdict::Undecided),
        Standing::Exceeded => (format!("{change}!"), Verdict::Worse),
    }
}

/// The verdict among all finalists. `Better` means that a recommendation would call it better.
pub fn verdict(finalist: &Finalist) -> Verdict {
    match finalist.objective.verdict {
        Verdict::Better if !finalist.is_better() => Verdict::Undecided,
        Verdict::Worse if !finalist.significant => Verdict::Undecided,
        verdict => verdict,
    }
}
