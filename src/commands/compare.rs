//! `allocanary compare`: are the new results better, worse or equal? In: two files of rows, gates. Out: a verdict for
//! each candidate, workload and column, and an exit code for CI.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use super::terminal;
use crate::args::CompareFlags;
use allocanary_cell::description::perhaps;
use allocanary_study::error::{Error, Result};
use allocanary_study::reports::comparison::{self, Compared};
use allocanary_study::rows;
use allocanary_study::summary::{
    Better, Comparison, Fold, Group, Key, MARGIN, Metric, Verdict, all_metrics, compare_groups, differences, differing,
    find_metric, metric_percent, notes,
};

/// A limit for a metric: the command fails if the metric surely got worse by more than `most`.
struct Gate {
    metric: &'static Metric,
    most: f64,
}

/// The outcome of a gate for one comparison.
#[derive(Clone, Copy, PartialEq)]
enum Judged {
    /// The metric did not get worse by more than the gate.
    Holds,
    /// The metric got worse by more than the gate.
    Broken,
    /// The samples leave it open.
    Undecided,
}

impl Gate {
    /// Did the metric get worse by more than the gate? The gate holds if the interval excludes this, and is broken if
    /// the interval leaves nothing else: the correction for many comparisons calls such a one undecided.
    fn judge(&self, one: &Comparison) -> Judged {
        let (least, most) = one.worsening(self.metric.better).unwrap_or((f64::NEG_INFINITY, f64::INFINITY));
        match one.verdict {
            Verdict::Worse if (one.ratio() - 1.0).abs() > self.most => Judged::Broken,
            Verdict::Better | Verdict::Equal => Judged::Holds,
            _ if least > self.most && !one.doubted => Judged::Broken,
            _ if most <= self.most => Judged::Holds,
            _ => Judged::Undecided,
        }
    }

    /// Advice on what to measure so that an undecided gate can be decided.
    fn more(&self, one: &Comparison) -> String {
        if one.doubted {
            return "the machine was too busy to judge that: measure again when it is idle".into();
        }
        let bound = if self.metric.better == Better::Higher { -self.most } else { self.most };
        match one.repeats_to_pass(bound) {
            Some(repeats) => format!("about {repeats} repeats would decide"),
            None => {
                "the samples spread too far for any number of repeats: take a wider gate, or a quieter machine".into()
            }
        }
    }
}

/// Compares, prints, and judges.
pub fn run(flags: &CompareFlags) -> Result<ExitCode> {
    let limits: Vec<(&str, f64)> = flags.gate.iter().map(|text| limit(text)).collect::<Result<_>>()?;
    // Rows of a user's program may have metrics that only they know. Each side is read once: it may be a pipe.
    let (old, new) = (read(&flags.old)?, read(&flags.new)?);
    let gates: Vec<Gate> = limits.into_iter().map(|(name, most)| gate(name, most)).collect::<Result<_>>()?;
    let mut metrics: Vec<&'static Metric> = flags.metrics.iter().map(|name| metric(name)).collect::<Result<_>>()?;
    for gate in &gates {
        if !metrics.iter().any(|metric| metric.name == gate.metric.name) {
            metrics.push(gate.metric);
        }
    }
    let mut pairs: Vec<(&Key, &Group, &Group)> =
        old.groups.iter().filter_map(|(key, group)| Some((key, group, new.groups.get(key)?))).collect();
    pairs.sort_by_key(|(key, ..)| (&key.study, &key.workload));
    if pairs.is_empty() {
        return Err(Error::NoRows(format!(
            "{} and {} have no candidate, workload and column in common",
            flags.old.display(),
            flags.new.display()
        )));
    }
    let mut compared = Vec::new();
    for metric in metrics {
        let gated = gates.iter().filter(|gate| gate.metric.name == metric.name).map(|gate| gate.most);
        let margin = gated.reduce(f64::min).unwrap_or(MARGIN);
        // As in a report, chance is bounded for one metric of one workload: what others do changes nothing here.
        let of_workload = |one: &(&Key, &Group, &Group), other: &(&Key, &Group, &Group)| {
            (&one.0.study, &one.0.workload) == (&other.0.study, &other.0.workload)
        };
        let families = pairs.chunk_by(of_workload);
        let mut found: Vec<Comparison> = families
            .flat_map(|all| compare_groups(all.iter().map(|(_, old, new)| (*old, *new)), metric, margin))
            .collect();
        if old.fold.noise.is_too_busy() || new.fold.noise.is_too_busy() {
            found = found.into_iter().map(Comparison::on_a_busy_machine).collect();
        }
        let whole = pairs.iter().zip(found).map(|((key, old, _), comparison)| Compared {
            key: (*key).clone(),
            place: old.place,
            metric,
            comparison,
        });
        // If an allocator does not report the metric, or every cell failed, there is nothing to compare; see `lost`.
        compared.extend(whole.filter(|one| one.comparison.old.is_finite() && one.comparison.new.is_finite()));
    }
    let mut out = comparison::render(&compared, &terminal::look());
    let missing = |here: &Side, there: &Side, name: &str| -> String {
        let lost = here.groups.keys().filter(|key| !there.groups.contains_key(*key));
        lost.map(|key| format!("only in the {name}: {}\n", comparison::title(key))).collect()
    };
    out.push_str(&missing(&new, &old, "new"));
    out.push_str(&surroundings(&old, &new));
    terminal::print(out.as_bytes())?;

    let mut lost = lost(&old, &new);
    for gate in &gates {
        lost.extend(without_figures(gate.metric, &pairs));
    }
    for (what, why) in &lost {
        terminal::tell(format_args!("lost: {what}: {why}"));
    }
    let judged = |wanted: Judged| {
        let all = gates.iter().flat_map(|gate| compared.iter().map(move |one| (gate, one)));
        let of_gate = all.filter(|(gate, one)| gate.metric.name == one.metric.name);
        of_gate.filter(move |(gate, one)| gate.judge(&one.comparison) == wanted).collect::<Vec<_>>()
    };
    let undecided = judged(Judged::Undecided);
    for (gate, one) in &undecided {
        let (title, found, more) = (one.title(), comparison::found(&one.comparison), gate.more(&one.comparison));
        terminal::tell(format_args!(
            "gate undecided: {title}: {found}, and the gate is {}; {more}",
            comparison::percent(gate.most)
        ));
    }
    let passes = flags.undecided == "pass";
    if !undecided.is_empty() && !passes {
        terminal::tell("an undecided gate fails; --undecided pass lets it through");
    }
    let broken = judged(Judged::Broken);
    for (gate, one) in &broken {
        let (title, found) = (one.title(), comparison::found(&one.comparison));
        terminal::tell(format_args!(
            "gate broken: {title}: {found}, and the gate is {}",
            comparison::percent(gate.most)
        ));
    }
    // A candidate that crashes, or is missing from the new rows, must not pass a gate.
    let passed = gates.is_empty() || (broken.is_empty() && lost.is_empty() && (undecided.is_empty() || passes));
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// The places where a gated metric has figures on one side only, or on neither: a gate without figures must not pass.
fn without_figures(metric: &Metric, pairs: &[(&Key, &Group, &Group)]) -> Vec<(String, String)> {
    let counts =
        |(_, old, new): &&(&Key, &Group, &Group)| (old.values_of(metric.name).len(), new.values_of(metric.name).len());
    if pairs.iter().all(|pair| counts(&pair) == (0, 0)) {
        return vec![(metric.name.to_string(), "gated, and neither the old nor the new rows have it".into())];
    }
    let why = |pair| match counts(&pair) {
        (old, 0) if old > 0 => Some(format!("gated: {old} old rows have it and no new row has")),
        (0, new) if new > 0 => Some(format!("gated: {new} new rows have it and no old row has")),
        _ => None,
    };
    let one_sided = pairs.iter().filter_map(|pair| Some((pair.0, why(pair)?)));
    one_sided.map(|(key, why)| (format!("{} of {}", metric.name, comparison::title(key)), why)).collect()
}

/// The places where the old rows have figures and the new rows have none, or have more failed cells.
fn lost(old: &Side, new: &Side) -> Vec<(String, String)> {
    let counted = |group: &Group| group.values_of("rss").len().max(group.values_of("peak").len());
    let why = |key: &Key, group: &Group| match new.groups.get(key) {
        None => Some("not in the new rows".to_string()),
        Some(now) if counted(group) > 0 && counted(now) == 0 => Some("every cell fails in the new rows".into()),
        Some(now) if now.fails_more_than(group) => {
            let [new, old] = [now, group].map(|group| format!("{} of {}", group.failed, group.runs()));
            Some(format!("{new} cells fail in the new rows, {old} did in the old"))
        }
        Some(_) => None,
    };
    let measured = old.groups.iter().filter(|(_, group)| counted(group) > 0);
    measured.filter_map(|(key, group)| Some((comparison::title(key), why(key, group)?))).collect()
}

/// Rows of the old or of the new state.
struct Side {
    fold: Fold,
    /// Keyed by the cells alone: the host and the allocator's version may differ between the two sides.
    groups: BTreeMap<Key, Group>,
    versions: BTreeMap<String, BTreeSet<String>>,
}

fn read(path: &Path) -> Result<Side> {
    let mut fold = Fold::default();
    for problem in rows::read(&[path.to_path_buf()], |sample| fold.add(&sample))? {
        terminal::tell(problem);
    }
    if fold.rows == 0 {
        return Err(Error::NoRows(format!("{}: no row that can be compared", path.display())));
    }
    fold.settle();
    let (mut groups, mut versions) = (BTreeMap::new(), BTreeMap::<String, BTreeSet<String>>::new());
    let mut kinds: BTreeMap<Key, Key> = BTreeMap::new();
    for (key, group) in std::mem::take(&mut fold.groups) {
        let cells = Key { host: Arc::default(), version: String::new(), ..key.clone() };
        if let Some(other) = kinds.insert(cells.clone(), key.clone()) {
            return Err(unlike(path, &other, &key));
        }
        versions.entry(key.candidate.clone()).or_default().insert(key.version);
        groups.insert(cells, group);
    }
    Ok(Side { fold, groups, versions })
}

/// The error for rows of one side that cannot be pooled into one figure.
fn unlike(path: &Path, one: &Key, other: &Key) -> Error {
    let kinds = match one.host == other.host {
        true => [one, other].map(|key| format!("version {}", known(&key.version))).to_vec(),
        false => differing(&[&one.host, &other.host]),
    };
    Error::Input(format!(
        "{}: the rows of {} are of two kinds: {}. They cannot be pooled into one figure: compare files of one kind each",
        path.display(),
        comparison::title(one),
        kinds.join("; ")
    ))
}

/// A version in a message. Rows of cells that failed may have none.
fn known(version: &str) -> &str {
    if version.is_empty() { "unknown" } else { version }
}

/// One line for each difference between the two sides (host, build, versions), and for each disturbance.
fn surroundings(old: &Side, new: &Side) -> String {
    let mut lines = differences(&old.fold.provenance, &new.fold.provenance);
    let joined = |versions: &BTreeSet<String>| versions.iter().cloned().collect::<Vec<_>>().join(" and ");
    for (candidate, was) in &old.versions {
        if let Some(is) = new.versions.get(candidate).filter(|is| *is != was) {
            lines.push(format!("{candidate}: version {} in the old, {} in the new", joined(was), joined(is)));
        }
    }
    let mut out = lines.iter().map(|line| format!("differs: {line}\n")).collect::<String>();
    for (name, side) in [("old", old), ("new", new)] {
        let studies: BTreeSet<Option<&str>> = side.groups.keys().map(|key| key.study.as_deref()).collect();
        let unfinished = studies.into_iter().flat_map(|study| side.fold.unfinished(study));
        let unfinished =
            unfinished.map(|(_, rows, planned)| format!("not finished: {rows} of {planned} planned cells have rows"));
        out.extend(notes(&side.fold).into_iter().chain(unfinished).map(|note| format!("{name}: {note}\n")));
    }
    out
}

fn metric(name: &str) -> Result<&'static Metric> {
    let all = all_metrics();
    let names = all.iter().map(|metric| metric.name);
    find_metric(name).ok_or_else(|| Error::Input(format!("no metric `{name}`{}", perhaps(name, names))))
}

/// Reads `rss=5%`. Only the rows know all metrics.
fn limit(text: &str) -> Result<(&str, f64)> {
    let wrong = || Error::Input(format!("--gate: wanted METRIC=PERCENT such as rss=5%, found `{text}`"));
    metric_percent(text).ok_or_else(wrong)
}

fn gate(name: &str, most: f64) -> Result<Gate> {
    let metric = metric(name)?;
    if metric.better == Better::Neither {
        return Err(Error::Input(format!("--gate: `{}` has no better direction, so it cannot get worse", metric.name)));
    }
    if metric.better == Better::Higher && most >= 1.0 {
        return Err(Error::Input(format!(
            "--gate {name}: more of it is better, so it cannot get worse by more than 100 %: wanted less than that, found {}",
            comparison::percent(most)
        )));
    }
    Ok(Gate { metric, most })
}
