//! `allocanary compare`: is the new state better, worse or no different? In: two files of rows, gates. Out: a verdict
//! for each candidate, workload and column, and an exit code for CI.

use std::process::ExitCode;

use super::terminal;
use crate::args::CompareFlags;
use allocanary_cell::description::perhaps;
use allocanary_kernel::units::Unit;
use allocanary_study::error::{Error, Result};
use allocanary_study::reports::comparison::{self, Compared};
use allocanary_study::rows;
use allocanary_study::summary::{
    Better, Fold, Group, Key, METRICS, Metric, Verdict, compare_groups, find_metric, metric_index,
};

/// Fail where a metric got worse for sure and by more than so much.
struct Gate {
    metric: &'static str,
    most: f64,
}

impl Gate {
    fn is_broken_by(&self, one: &Compared) -> bool {
        let change = (one.comparison.ratio() - 1.0).abs();
        one.metric.name == self.metric && one.comparison.verdict == Verdict::Worse && change > self.most
    }
}

/// Compares, prints, and judges.
pub fn run(flags: &CompareFlags) -> Result<ExitCode> {
    let gates: Vec<Gate> = flags.gate.iter().map(|text| gate(text)).collect::<Result<_>>()?;
    let mut metrics: Vec<&'static Metric> = flags.metrics.iter().map(|name| metric(name)).collect::<Result<_>>()?;
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
    let mut compared = Vec::new();
    for metric in metrics {
        let found = compare_groups(pairs.iter().map(|(_, old, new)| (*old, *new)), metric);
        let whole = pairs.iter().zip(found).map(|((key, old, _), comparison)| Compared {
            key: (*key).clone(),
            place: old.place,
            metric,
            comparison,
        });
        // Where an allocator cannot say, or every cell has failed, there is nothing to compare; see `lost`.
        compared.extend(whole.filter(|one| one.comparison.old.is_finite() && one.comparison.new.is_finite()));
    }
    let mut out = comparison::render(&compared, &terminal::look());
    let missing = |here: &Fold, there: &Fold, name: &str| -> String {
        let lost = here.groups.keys().filter(|key| !there.groups.contains_key(*key));
        lost.map(|key| format!("only in the {name}: {}\n", comparison::title(key))).collect()
    };
    out.push_str(&missing(&new, &old, "new"));
    terminal::print(out.as_bytes())?;

    let lost = lost(&old, &new);
    for (key, why) in &lost {
        eprintln!("lost: {}: {why}", comparison::title(key));
    }
    let unjudged = |one: &&Compared| {
        let gated = gates.iter().any(|gate| gate.metric == one.metric.name);
        gated && one.comparison.verdict == Verdict::TooFew
    };
    let unjudged: Vec<&Compared> = compared.iter().filter(unjudged).collect();
    for one in &unjudged {
        eprintln!("gate not judged: {}: too few samples to tell; measure more repeats", one.title());
    }
    let broken: Vec<&Compared> =
        compared.iter().filter(|one| gates.iter().any(|gate| gate.is_broken_by(one))).collect();
    for one in &broken {
        eprintln!("gate broken: {}: {}", one.title(), Unit::Ratio.show(one.comparison.ratio()));
    }
    // What crashes, or is not there any more, must not pass a gate.
    let passed = broken.is_empty() && (gates.is_empty() || (lost.is_empty() && unjudged.is_empty()));
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// What the old rows have figures of and the new ones have not, or where more cells fail than did.
fn lost<'a>(old: &'a Fold, new: &Fold) -> Vec<(&'a Key, String)> {
    let counted = |group: &Group| group.values[metric_index("rss")].len();
    let why = |key: &Key, group: &Group| match new.groups.get(key) {
        None => Some("not in the new rows".to_string()),
        Some(now) if counted(group) > 0 && counted(now) == 0 => Some("every cell fails in the new rows".into()),
        Some(now) if now.failed > group.failed => {
            Some(format!("{} cells fail in the new rows, {} did in the old", now.failed, group.failed))
        }
        Some(_) => None,
    };
    let measured = old.groups.iter().filter(|(_, group)| counted(group) > 0);
    measured.filter_map(|(key, group)| Some((key, why(key, group)?))).collect()
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
    let metric = metric(name.trim())?;
    if metric.better == Better::Neither {
        return Err(Error::Input(format!("--gate: `{}` has no better way, so it cannot get worse", metric.name)));
    }
    Ok(Gate { metric: metric.name, most: most / 100.0 })
}
