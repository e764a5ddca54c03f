//! The wording of all reports. In: findings. Out: sentences and the texts of single figures.

use std::collections::BTreeMap;

use allocanary_measure::metrics::Metric;
use allocanary_measure::summary::{
    Axis, CandidatePoints, Findings, GroupComparison, LEAST_SAMPLES, MedianEstimate, Panel, StudySection, Verdict,
};
use allocanary_text::units::Unit;

/// The text of a median in a table, in the metric's unit.
pub fn median(metric: &Metric, estimate: Option<&MedianEstimate>) -> String {
    estimate.map_or("-".into(), |estimate| metric.unit.show(estimate.median))
}

/// Bytes as a number of MiB without the unit, for a table whose header names it: `84.1`.
pub fn mebibytes(bytes: f64) -> String {
    let shown = Unit::Ratio.show(bytes / f64::from(1 << 20));
    shown.trim_end_matches('x').to_string()
}

/// The interval of the median: `[82.0, 86.9]`, in the same multiple of the unit if possible.
pub fn interval(metric: &Metric, estimate: Option<&MedianEstimate>) -> String {
    let Some((low, high)) = estimate.and_then(MedianEstimate::interval) else { return String::new() };
    let (low, high) = (metric.unit.show(low), metric.unit.show(high));
    match (low.split_once(' '), high.split_once(' ')) {
        (Some((number, low_unit)), Some((_, high_unit))) if low_unit == high_unit => {
            format!("[{number}, {}]", bare(&high))
        }
        _ => format!("[{low}, {high}]"),
    }
}

fn bare(figure: &str) -> &str {
    figure.split(' ').next().unwrap_or(figure)
}

/// `4 threads`, `1 thread`, `40 cores`.
pub fn column(axis: Axis, value: u32) -> String {
    let name = match axis {
        Axis::Program => return "this host".into(),
        axis => axis.name(),
    };
    let name = if value == 1 { name.trim_end_matches('s') } else { name };
    format!("{value} {name}")
}

/// The best line in a column for a metric where less is better: the line with the lowest median among those that fail
/// no more often than the first.
pub fn best(panel: &Panel, column: usize, metric: &str) -> Option<usize> {
    let median = |line: &CandidatePoints| Some(line.points.get(column)?.as_ref()?.get(metric)?.median);
    let lines = panel.lines.iter().enumerate().filter(|(at, _)| !panel.fails_more(*at, column));
    let medians = lines.filter_map(|(at, line)| Some((at, median(line)?)));
    medians.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(at, _)| at)
}

/// The line with the star in its column: the best of several, if it has enough samples.
pub fn starred(panel: &Panel, column: usize, metric: &str) -> Option<usize> {
    let best = best(panel, column, metric).filter(|_| panel.lines.len() > 1)?;
    let samples = panel.lines[best].points[column].as_ref()?.get(metric)?.n;
    (samples >= LEAST_SAMPLES).then_some(best)
}

/// The most frequent of some texts such as `n=5`, and the text for a table's header.
pub fn common(counts: impl Iterator<Item = String>) -> (Option<String>, String) {
    let mut distinct: BTreeMap<String, usize> = BTreeMap::new();
    counts.for_each(|count| *distinct.entry(count).or_default() += 1);
    let several = distinct.len() > 1;
    let Some((most, _)) = distinct.into_iter().max_by_key(|(_, times)| *times) else { return (None, "n=0".into()) };
    let text = if several { format!("{most} where a cell says no other") } else { most.clone() };
    (Some(most), text)
}

/// The number of samples of a figure: `n=5`.
pub fn count(estimate: &MedianEstimate) -> String {
    format!("n={}", estimate.n)
}

/// The numbers of samples of a metric's figures.
pub fn counts<'a>(panel: &'a Panel, metric: &'a str) -> impl Iterator<Item = String> + 'a {
    let points = panel.lines.iter().flat_map(|line| line.points.iter().flatten());
    points.filter_map(move |point| Some(count(point.get(metric)?)))
}

/// A change in percent: `+36 %`, `-4.2 %`. If the value more than doubles, it is a factor: `3.1x`.
pub fn change(ratio: f64) -> String {
    match ratio {
        ratio if !ratio.is_finite() => "-".into(),
        ratio if ratio >= 1.995 => format!("{ratio:.1}x"),
        ratio if (ratio - 1.0).abs() < 0.0995 => format!("{:+.1} %", (ratio - 1.0) * 100.0),
        ratio => format!("{:+.0} %", (ratio - 1.0) * 100.0),
    }
}

/// `worse: 3.1x [2.9x, 3.3x]`.
pub fn verdict(comparison: &GroupComparison) -> String {
    let text = comparison.verdict.text();
    match comparison.interval {
        None => format!("{text}: too few samples, {}", count_of(comparison)),
        Some(_) => {
            let spikes = spikes(comparison).map_or(String::new(), |spikes| format!(", {spikes}"));
            format!("{text}: {}, {}{spikes}", changed(comparison), count_of(comparison))
        }
    }
}

/// What a spike is.
pub const SPIKES: &str = "A spike is a run beyond all of the other side's by more than the margin, and by as much as these reach \
                          from their median. Medians do not show it; a gate on a quantile, such as --gate peak_resident.p90=5%, does.";

/// `spikes in 8 of 40`, or `spikes gone, 8 of 40`; `None` if none are shown.
pub fn spikes(comparison: &GroupComparison) -> Option<String> {
    match (comparison.spikes(), comparison.spikes_gone()) {
        (Some(runs), _) => Some(format!("spikes in {runs} of {}", comparison.n.1)),
        (None, Some(runs)) => Some(format!("spikes gone, {runs} of {}", comparison.n.0)),
        (None, None) => None,
    }
}

/// `3.1x [2.9x, 3.3x]`, or `from 0 to 3`.
pub fn changed(comparison: &GroupComparison) -> String {
    if let Some(risen) = risen_from_zero(comparison) {
        return format!("from {risen}");
    }
    let interval = comparison.interval.map(|(low, high)| format!(" [{}, {}]", change(low), change(high)));
    format!("{}{}", change(comparison.ratio()), interval.unwrap_or_default())
}

/// `0 to 3`: a rise from zero has no ratio.
fn risen_from_zero(comparison: &GroupComparison) -> Option<String> {
    (comparison.old == 0.0 && comparison.new > 0.0).then(|| format!("0 to {}", comparison.new))
}

/// `worse 3.1x` above its interval, and spikes below. Equal and undecided verdicts have only the interval.
pub fn short_verdict(comparison: &GroupComparison) -> String {
    let Some((low, high)) = comparison.interval else {
        return format!("{}\n{}", comparison.verdict.text(), count_of(comparison));
    };
    if let Some(risen) = risen_from_zero(comparison) {
        return format!("{} {risen}", comparison.verdict.text());
    }
    let spikes = spikes(comparison).map_or(String::new(), |spikes| format!("\n{spikes}"));
    let interval = format!("[{}, {}]{spikes}", brief(low), brief(high));
    match comparison.verdict {
        verdict @ (Verdict::Equal | Verdict::Undecided) => format!("{}\n{interval}", verdict.text()),
        verdict => format!("{} {}\n{interval}", verdict.text(), change(comparison.ratio())),
    }
}

/// `-40 % [-41, -39]`.
pub fn with_interval(comparison: &GroupComparison) -> String {
    let interval = comparison.interval.map(|(low, high)| format!(" [{}, {}]", brief(low), brief(high)));
    match risen_from_zero(comparison) {
        Some(risen) => format!("from {risen}"),
        None => change(comparison.ratio()) + &interval.unwrap_or_default(),
    }
}

/// What would decide an undecided comparison: a number of repeats, an idle machine, or nothing.
pub fn what_would_decide(comparison: &GroupComparison) -> String {
    match comparison.repeats_to_decide() {
        Some(repeats) => format!("about {repeats} repeats would decide (--repeats {repeats})"),
        None if comparison.doubted => "the machine was too busy to judge: measure again when it is idle".into(),
        None => "the runs differ too much for any number of repeats to decide".into(),
    }
}

/// How many repeats would decide the undecided comparisons, which ones no number would decide, and whether the equal ones have too few
/// samples to show spikes. `None` if all are decided.
pub fn repeats<'a>(comparisons: impl Iterator<Item = (String, &'a GroupComparison)>) -> Option<String> {
    let comparisons: Vec<(String, &GroupComparison)> = comparisons.collect();
    let tail = comparisons.iter().filter_map(|(_, one)| one.repeats_to_see_spikes()).max();
    let tail = tail.map(|repeats| {
        format!("Tail: undecided where equal, {repeats} repeats would exclude spikes in a fifth of the runs.")
    });
    let said: Vec<String> = to_decide(comparisons.into_iter()).into_iter().chain(tail).collect();
    (!said.is_empty()).then(|| said.join(" "))
}

fn to_decide<'a>(comparisons: impl Iterator<Item = (String, &'a GroupComparison)>) -> Option<String> {
    let undecided = comparisons.filter(|(_, one)| one.verdict == Verdict::Undecided && one.n.0.min(one.n.1) > 0);
    let (mut repeats, mut spread, mut doubted) = (Vec::new(), Vec::new(), Vec::new());
    for (name, one) in undecided {
        match one.repeats_to_decide() {
            Some(enough) => repeats.push(enough),
            None if one.doubted => doubted.push(name),
            None => spread.push(name),
        }
    }
    let mut parts = Vec::new();
    if let (Some(least), Some(most)) = (repeats.iter().min(), repeats.iter().max()) {
        let all = repeats.len() + spread.len() + doubted.len();
        let of = if repeats.len() == all { String::new() } else { format!(" {} of {all}", repeats.len()) };
        parts.push(match least == most {
            true => format!("about {most} repeats would decide{of}"),
            false => format!(
                "about {least} repeats would decide the first of them, {most} would decide{}",
                if of.is_empty() { " all" } else { &of }
            ),
        });
    }
    let more = [
        (spread, "no number of repeats would decide", "whose samples spread too far"),
        (doubted, "the machine was too busy to judge", "to be measured again when it is idle"),
    ];
    for (names, what, why) in more.into_iter().filter(|(names, ..)| !names.is_empty()) {
        parts.push(format!("{what} {}, {why} ({})", names.len(), some(&names)));
    }
    (!parts.is_empty()).then(|| format!("Undecided: {}.", parts.join("; ")))
}

/// The first names, and how many more there are.
fn some(names: &[String]) -> String {
    const SHOWN: usize = 5;
    let shown = names[..names.len().min(SHOWN)].join("; ");
    if names.len() > SHOWN { format!("{shown}; and {} more", names.len() - SHOWN) } else { shown }
}

/// The number of compared samples: `n=5`, or `n=5,3` if the two sides differ.
pub fn count_of(comparison: &GroupComparison) -> String {
    match comparison.n {
        (old, new) if old == new => format!("n={old}"),
        (old, new) => format!("n={old},{new}"),
    }
}

/// A bound of an interval, short: `+36` percent, or `3.1x`.
pub fn brief(ratio: f64) -> String {
    change(ratio).trim_end_matches(" %").to_string()
}

/// The metric that divides resident bytes by requested bytes.
pub const PER_REQUESTED: &str = "resident_per_requested";

/// The text of the requested bytes in a panel's title. They are equal for all candidates, except for blocks that are in other threads'
/// mailboxes at that moment. `None` if a workload does not know them, such as a whole service.
pub fn requested(panel: &Panel) -> Option<String> {
    let of = |line: &CandidatePoints| {
        line.points.iter().flatten().filter_map(|point| Some(point.get("requested")?.median)).collect()
    };
    let all: Vec<f64> = panel.lines.iter().flat_map(|line| -> Vec<f64> { of(line) }).collect();
    let least = all.iter().copied().reduce(f64::min)?;
    let most = all.iter().copied().reduce(f64::max)?;
    if most == 0.0 {
        return None;
    }
    let show = |bytes| Unit::Bytes.show(bytes);
    Some(if show(least) == show(most) { show(most) } else { format!("{} to {}", show(least), show(most)) })
}

/// One sentence for the panel: the lowest and the highest candidate at its largest column, and their growth.
pub fn headline(panel: &Panel) -> Option<String> {
    let last = panel.columns.len().checked_sub(1)?;
    let rss = |line: &CandidatePoints, at: usize| Some(line.points[at].as_ref()?.get("resident")?.median);
    let lines = panel.lines.iter().enumerate().filter(|(at, _)| !panel.fails_more(*at, last));
    let mut ends: Vec<(f64, &CandidatePoints)> = lines.filter_map(|(_, line)| Some((rss(line, last)?, line))).collect();
    ends.sort_by(|a, b| a.0.total_cmp(&b.0));
    let ((least, best), (most, worst)) = (ends.first()?, ends.last()?);
    let show = |bytes: f64| Unit::Bytes.show(bytes);
    let at = column(panel.axis, panel.columns[last]);
    let settled = settled(panel, last).map_or(String::new(), |settled| format!(" {settled}"));
    if ends.len() == 1 {
        let from = rss(best, 0).filter(|_| last > 0);
        let grew = from.map_or(String::new(), |from| {
            format!(", {:.1} times its {} at {}", least / from, show(from), column(panel.axis, panel.columns[0]))
        });
        return Some(format!("At {at} {} keeps {} when idle{grew}.{settled}", best.name(), show(*least)));
    }
    Some(format!(
        "At {at} {} keeps the least when idle, {}, and {} the most, {} ({:.1} times as much).{settled}",
        best.name(),
        show(*least),
        worst.name(),
        show(*most),
        most / least
    ))
}

/// The candidates that returned their memory at every idle reading of a workload with more than one: the resident
/// memory since start was at most a quarter more than the requested bytes. `None` for all other workloads.
pub fn settled(panel: &Panel, column: usize) -> Option<String> {
    const QUARTER: f64 = 1.25;
    const SAID: &str = "Growth since start within 25 % of requested bytes at every rest";
    let worst = |line: &CandidatePoints| Some(line.points[column].as_ref()?.get("worst_idle")?.median);
    let known: Vec<(f64, &CandidatePoints)> =
        panel.lines.iter().filter_map(|line| Some((worst(line)?, line))).collect();
    let within = known.iter().filter(|(worst, _)| *worst <= QUARTER);
    let within: Vec<String> = within.map(|(worst, line)| format!("{} ({worst:.2})", line.name())).collect();
    match (known.is_empty(), within.is_empty()) {
        (true, _) => None,
        (_, true) => Some(format!("{SAID}: of no candidate.")),
        _ => Some(format!("{SAID}: {}.", within.join(", "))),
    }
}

/// The remark next to the verdicts of a study that was interrupted, or ended by its budget.
fn unfinished(section: &StudySection) -> Option<String> {
    let several = section.unfinished.len() > 1;
    let part = |(host, rows, planned): &(String, usize, usize)| {
        let host = if several { format!(" on {host}") } else { String::new() };
        format!("{rows} of {planned} planned processes have rows{host}")
    };
    let parts: Vec<String> = section.unfinished.iter().map(part).collect();
    (!parts.is_empty()).then(|| format!("The study is not finished: {}.", parts.join(", ")))
}

/// The remarks next to the verdicts of a study.
pub fn remarks(section: &StudySection) -> Vec<String> {
    unfinished(section).into_iter().chain(apart(section)).collect()
}

/// The remark about candidates whose repeats did not alternate. Their memory can be compared nevertheless.
fn apart(section: &StudySection) -> Option<String> {
    let mut pairs: Vec<String> = Vec::new();
    for panel in &section.panels {
        for line in &panel.apart {
            let pair = format!("{} and {}", panel.lines[0].name(), panel.lines[*line].name());
            if !pairs.contains(&pair) {
                pairs.push(pair);
            }
        }
    }
    (!pairs.is_empty()).then(|| {
        format!(
            "{} were measured one after the other and not in turns: the state of the machine may explain what differs between \
             them in time (throughput, latency, processor time). To compare that, measure them together, in a new study.",
            pairs.join(", ")
        )
    })
}

/// Lines about the origin of the numbers.
pub fn provenance(findings: &Findings) -> Vec<String> {
    let line = |provenance: &allocanary_rows::provenance::Provenance| {
        let (build, host) = (&provenance.build, &provenance.host);
        format!(
            "{} {} ({}, build {}, {}, {}); {}: {}, {} cores ({} allowed), {}, Linux {}, pages of {}, THP {}",
            build.package,
            build.version,
            build.revision,
            build.id,
            build.profile,
            build.rustc.split(" (").next().unwrap_or_default(),
            host.name,
            host.cpu,
            host.cores,
            host.affinity,
            Unit::Bytes.show(host.memory_bytes as f64),
            host.kernel,
            Unit::Bytes.show(host.page_bytes as f64),
            host.thp
        )
    };
    findings.provenance.iter().map(line).collect()
}

/// What went wrong: failed cells, and lines that are no rows.
pub fn failures(findings: &Findings) -> Vec<String> {
    let failed = |(what, why, count): &(String, String, usize)| {
        let times = if *count == 1 { String::new() } else { format!(" ({count} times)") };
        format!("failed: {what}: {why}{times}")
    };
    findings.failures.iter().map(failed).chain(findings.problems.iter().cloned()).collect()
}

/// The failures and problems, one line each, with the unproven settings and remarks on the rows.
pub fn troubles(findings: &Findings) -> Vec<String> {
    let unproven = findings.unproven.iter();
    let unproven = unproven.map(|(candidate, name, why)| format!("unproven: {candidate}: {name} was taken, but {why}"));
    let mut all = failures(findings);
    all.splice(findings.failures.len()..findings.failures.len(), unproven);
    all.extend(findings.notes.iter().cloned());
    all
}

#[cfg(test)]
mod tests;
