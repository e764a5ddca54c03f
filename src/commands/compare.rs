//! `allocanary compare`: is the new state better, worse or no different? In: two files of rows, gates. Out: a verdict
//! for each candidate, workload and column, and an exit code for CI.

use std::process::ExitCode;

use comfy_table::{ContentArrangement, Table};

use super::terminal;
use crate::args::CompareFlags;
use crate::description::perhaps;
use crate::error::{Error, Result};
use crate::rows;
use crate::summary::{Comparison, Fold, Group, Key, METRICS, Metric, Verdict, compare_groups, find_metric};
use crate::units::Unit;

/// Fail where a metric got worse for sure and by more than so much.
struct Gate {
    metric: &'static str,
    most: f64,
}

/// Compares, prints, and judges.
pub fn run(flags: &CompareFlags) -> Result<ExitCode> {
    let gates: Vec<Gate> = flags.gate.iter().map(|text| gate(text)).collect::<Result<_>>()?;
    let mut metrics: Vec<&Metric> = flags.metrics.iter().map(|name| metric(name)).collect::<Result<_>>()?;
    for gate in &gates {
        if !metrics.iter().any(|metric| metric.name == gate.metric) {
            metrics.push(metric(gate.metric)?);
        }
    }
    let (old, new) = (read(&flags.old)?, read(&flags.new)?);
    let pairs: Vec<(&Key, &Group, &Group)> =
        old.groups.iter().filter_map(|(key, group)| Some((key, group, new.groups.get(key)?))).collect();
    if pairs.is_empty() {
        return Err(Error::NoRows(format!(
            "{} and {} have no candidate, workload and column in common",
            flags.old.display(),
            flags.new.display()
        )));
    }
    let only: Vec<String> = old.groups.keys().filter(|key| !new.groups.contains_key(*key)).map(title).collect();
    let added: Vec<String> = new.groups.keys().filter(|key| !old.groups.contains_key(*key)).map(title).collect();

    let mut table = Table::new();
    table.load_style(comfy_table::presets::UTF8_HORIZONTAL_ONLY);
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(terminal::look().width).force_no_tty();
    table.set_header(["what", "metric", "old", "new", "change", "verdict"]);
    let mut verdicts = Vec::new();
    let mut broken = Vec::new();
    for metric in metrics {
        let compared = compare_groups(pairs.iter().map(|(_, old, new)| (*old, *new)), metric);
        for ((key, _, _), comparison) in pairs.iter().zip(compared) {
            if !comparison.old.is_finite() || !comparison.new.is_finite() {
                continue; // this allocator cannot say, or every cell failed
            }
            table.add_row(line(key, metric, &comparison));
            verdicts.push(comparison.verdict);
            broken.extend(gates.iter().filter(|gate| gate.metric == metric.name).filter_map(|gate| {
                let worse = comparison.verdict == Verdict::Worse && (comparison.ratio() - 1.0).abs() > gate.most;
                worse.then(|| format!("gate {} {}: {}", metric.name, Unit::Ratio.show(comparison.ratio()), title(key)))
            }));
        }
    }
    let count = |verdict| verdicts.iter().filter(|found| **found == verdict).count();
    let mut out = format!("{table}\n{} comparisons: ", verdicts.len());
    let kinds = [Verdict::NoDifference, Verdict::Better, Verdict::Worse, Verdict::Different, Verdict::TooFew];
    let counts = kinds.map(|verdict| (count(verdict), verdict.text()));
    let counts: Vec<String> =
        counts.iter().filter(|(count, _)| *count > 0).map(|(count, text)| format!("{count} {text}")).collect();
    out.push_str(&format!("{}\n", counts.join(", ")));
    only.iter().for_each(|title| out.push_str(&format!("only in the old: {title}\n")));
    added.iter().for_each(|title| out.push_str(&format!("only in the new: {title}\n")));
    terminal::print(out.as_bytes())?;
    broken.iter().for_each(|gate| eprintln!("broken {gate}"));
    Ok(if broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn read(path: &std::path::Path) -> Result<Fold> {
    let mut fold = Fold::default();
    for problem in rows::read(&[path.to_path_buf()], |sample| fold.add(&sample))? {
        eprintln!("{problem}");
    }
    match fold.rows {
        0 => Err(Error::NoRows(format!("{}: no row that can be compared", path.display()))),
        _ => Ok(fold),
    }
}

fn metric(name: &str) -> Result<&'static Metric> {
    let names = METRICS.iter().map(|metric| metric.name);
    find_metric(name).ok_or_else(|| Error::Input(format!("no metric `{name}`{}", perhaps(name, names))))
}

/// Reads `rss=5%`.
fn gate(text: &str) -> Result<Gate> {
    let wrong = || Error::Input(format!("--gate: wanted METRIC=PERCENT such as rss=5%, found `{text}`"));
    let (name, most) = text.split_once('=').ok_or_else(wrong)?;
    let most: f64 = most.trim().trim_end_matches('%').trim().parse().map_err(|_| wrong())?;
    if !(0.0..=10_000.0).contains(&most) {
        return Err(wrong());
    }
    Ok(Gate { metric: metric(name.trim())?.name, most: most / 100.0 })
}

fn title(key: &Key) -> String {
    let cores = key.cores.map_or(String::new(), |cores| format!(", {cores} cores"));
    format!("{}, {}, {} threads{cores}", key.candidate, key.workload, key.threads)
}

fn line(key: &Key, metric: &Metric, comparison: &Comparison) -> [String; 6] {
    let (low, high) = comparison.interval;
    let percent = |ratio: f64| format!("{:+.1}", (ratio - 1.0) * 100.0);
    [
        title(key),
        metric.name.to_string(),
        metric.unit.show(comparison.old),
        metric.unit.show(comparison.new),
        format!("{} % [{}, {}]", percent(comparison.ratio()), percent(low), percent(high)),
        comparison.verdict.text().to_string(),
    ]
}
