//! Are the new results better, worse or equal? In: the old and the new rows, metrics, gates. Out: a verdict for each
//! candidate, workload and column, what is missing, and whether the gates hold.

use std::collections::BTreeSet;

use super::verdict::{compare_quantiles, with_family_interval};
use super::{
    CellKey, CellRepeats, GroupComparison, Judged, LEAST_SAMPLES, MARGIN, MetricLimit, Side, compare_groups,
    differences,
};
use crate::metrics::Metric;
use allocanary_rows::error::{Error, Result};
use allocanary_rows::version::Version;

/// One candidate at one column in one metric: the new rows compared with the old rows.
pub struct RowComparison {
    /// Which cells.
    pub key: CellKey,
    /// Their place in the study.
    pub place: u32,
    /// The compared metric.
    pub metric: Metric,
    /// The result.
    pub comparison: GroupComparison,
}

impl RowComparison {
    /// The cells and the figure in one line.
    pub fn title(&self) -> String {
        format!("{} of {}", self.figure(), self.key.title())
    }

    /// `peak_resident`, or `peak_resident.p90` of a quantile.
    pub fn figure(&self) -> String {
        figure(&self.metric, self.comparison.quantile)
    }
}

fn figure(metric: &Metric, quantile: Option<f64>) -> String {
    quantile.map_or_else(|| metric.name.to_string(), |q| format!("{}.p{:.0}", metric.name, q * 100.0))
}

/// The result of a comparison of two states.
pub struct Judgement {
    /// The comparisons, metric by metric.
    pub compared: Vec<RowComparison>,
    /// Cells that only the new rows have.
    pub only_new: Vec<String>,
    /// Differences between the two sides: host, build, versions.
    pub differs: Vec<String>,
    /// What a reader must know about the old rows, and about the new rows.
    pub notes: [Vec<String>; 2],
    /// What the old rows have and the new rows lack, each with the reason. Also gates without figures.
    pub lost: Vec<(String, String)>,
    /// Each gate with the index of a comparison in its metric, and the result.
    pub gated: Vec<(MetricLimit, usize, Judged)>,
    has_gates: bool,
}

/// A metric, and a quantile of it if it is not the median.
type Figure = (Metric, Option<f64>);

/// A pair of groups that both sides have.
type Pair<'a> = (&'a CellKey, &'a CellRepeats, &'a CellRepeats);

impl Judgement {
    /// Compares two sides in these metrics, and in the figures of the gates.
    pub fn of(old: &Side, new: &Side, metrics: Vec<Metric>, gates: &[MetricLimit]) -> Result<Judgement> {
        let mut figures: Vec<Figure> = metrics.into_iter().map(|metric| (metric, None)).collect();
        for gate in gates {
            if !figures.iter().any(|(metric, quantile)| gate.is_for(metric, *quantile)) {
                figures.push((gate.metric.clone(), gate.quantile));
            }
        }
        let mut pairs: Vec<Pair> =
            old.groups.iter().filter_map(|(key, group)| Some((key, group, new.groups.get(key)?))).collect();
        pairs.sort_by_key(|(key, ..)| (&key.study, &key.workload));
        if pairs.is_empty() {
            let [old, new] = [old, new].map(contents);
            return Err(Error::NoRows(format!(
                "no candidate, workload and column in common: the old rows are of {old}; the new rows are of {new}"
            )));
        }
        let noises = [&old.fold.noise, &new.fold.noise];
        let is_too_busy = noises.iter().any(|noise| noise.is_too_busy());
        let others = noises.iter().map(|noise| noise.others_per_cpu()).fold(0.0, f64::max);
        let compared = figures.iter().flat_map(|figure| in_figure(&pairs, figure, gates));
        let doubt = |one: RowComparison| match is_too_busy {
            true => RowComparison { comparison: one.comparison.on_a_busy_machine(one.metric.unit, others), ..one },
            false => one,
        };
        let compared: Vec<RowComparison> = compared.map(doubt).collect();
        let mut gated = Vec::new();
        for gate in gates {
            let own = compared.iter().enumerate();
            let own = own.filter(|(_, one)| gate.is_for(&one.metric, one.comparison.quantile));
            gated.extend(own.map(|(at, one)| (gate.clone(), at, gate.judge(&one.comparison))));
        }
        let mut lost = missing(old, new);
        if !gates.is_empty() {
            lost.extend([("old", old), ("new", new)].into_iter().flat_map(|(name, side)| unfinished(name, side)));
        }
        lost.extend(gates.iter().flat_map(|gate| without_figures(&gate.metric, &pairs)));
        let only_new = new.groups.keys().filter(|key| !old.groups.contains_key(*key)).map(CellKey::title).collect();
        Ok(Judgement {
            compared,
            only_new,
            differs: differs(old, new),
            notes: [old.notes(), new.notes()],
            lost,
            gated,
            has_gates: !gates.is_empty(),
        })
    }

    /// The gates with this result, each with its comparison.
    pub fn judged(&self, wanted: Judged) -> impl Iterator<Item = (&MetricLimit, &RowComparison)> {
        let of_kind = self.gated.iter().filter(move |(_, _, judged)| *judged == wanted);
        of_kind.map(|(gate, at, _)| (gate, &self.compared[*at]))
    }

    /// Whether there is a gate.
    pub fn has_gates(&self) -> bool {
        self.has_gates
    }

    /// Whether all gates hold. A candidate that crashes, or is missing from the new rows, must not pass a gate, and neither
    /// may a study that is not finished. An undecided gate passes only if the user says so.
    pub fn passes(&self, undecided_passes: bool) -> bool {
        let no = |judged| self.judged(judged).next().is_none();
        !self.has_gates || (no(Judged::Broken) && self.lost.is_empty() && (undecided_passes || no(Judged::Undecided)))
    }
}

/// What a side contains, for an error that nothing is in common: `jemalloc, server, 16 threads; and 3 more`.
fn contents(side: &Side) -> String {
    const SHOWN: usize = 6;
    let mut keys: Vec<(u32, String)> = side.groups.iter().map(|(key, group)| (group.place, key.title())).collect();
    keys.sort();
    let named: Vec<&str> = keys.iter().take(SHOWN).map(|(_, title)| title.as_str()).collect();
    match (keys.len(), keys.len().saturating_sub(SHOWN)) {
        (0, _) => "nothing".into(),
        (_, 0) => named.join("; "),
        (_, more) => format!("{}; and {more} more", named.join("; ")),
    }
}

/// The comparisons of all pairs in one figure. The margin is that of its narrowest gate, if there is one.
fn in_figure(pairs: &[Pair], (metric, quantile): &Figure, gates: &[MetricLimit]) -> Vec<RowComparison> {
    let gated = gates.iter().filter(|gate| gate.is_for(metric, *quantile)).map(|gate| gate.most).reduce(f64::min);
    let margin = gated.unwrap_or(MARGIN);
    // As in a report, the error by chance is bounded for one metric of one workload, so other workloads do not change these verdicts.
    let of_workload = |one: &Pair, other: &Pair| (&one.0.study, &one.0.workload) == (&other.0.study, &other.0.workload);
    let of_family = |all: &[Pair]| {
        let groups = all.iter().map(|(_, old, new)| (*old, *new));
        match quantile {
            Some(q) => compare_quantiles(groups, metric, *q, margin),
            None if gated.is_none() => compare_groups(groups, metric, margin),
            None => {
                let found = compare_groups(groups.clone(), metric, margin).into_iter().zip(groups);
                found.map(|(one, (old, new))| with_family_interval(one, old, new, metric)).collect()
            }
        }
    };
    let found = pairs.chunk_by(of_workload).flat_map(of_family);
    let whole = pairs.iter().zip(found).map(|((key, old, _), comparison)| RowComparison {
        key: (*key).clone(),
        place: old.place,
        metric: metric.clone(),
        comparison,
    });
    // If an allocator does not report the metric, or every cell failed, there is nothing to compare; see `missing`.
    whole.filter(|one| one.comparison.old.is_finite() && one.comparison.new.is_finite()).collect()
}

/// A study that ended before its last cell. The missing cells might break a gate.
fn unfinished(name: &str, side: &Side) -> Vec<(String, String)> {
    let why = |(rows, planned)| {
        format!("{rows} of {planned} planned processes have rows: finish it (--resume), or measure again")
    };
    side.unfinished().into_iter().map(|counts| (format!("the rest of the {name} study"), why(counts))).collect()
}

/// The places where a gated metric has figures on one side only, on neither side, or too few on the new side only. A gate without figures
/// must not pass.
fn without_figures(metric: &Metric, pairs: &[Pair]) -> Vec<(String, String)> {
    let counts = |(_, old, new): &Pair| (old.values_of(&metric.name).len(), new.values_of(&metric.name).len());
    if pairs.iter().all(|pair| counts(pair) == (0, 0)) {
        return vec![(metric.name.to_string(), "gated, and neither the old nor the new rows have it".into())];
    }
    let why = |pair| match counts(pair) {
        (old, 0) if old > 0 => Some(format!("gated: {old} old rows have it and no new row has")),
        (0, new) if new > 0 => Some(format!("gated: {new} new rows have it and no old row has")),
        (old, new) if old >= LEAST_SAMPLES && new < LEAST_SAMPLES && new > 0 => Some(format!(
            "gated: {old} old rows have it and only {new} new, of at least {LEAST_SAMPLES} that a gate needs"
        )),
        _ => None,
    };
    let one_sided = pairs.iter().filter_map(|pair| Some((pair.0, why(pair)?)));
    one_sided.map(|(key, why)| (format!("{} of {}", metric.name, key.title()), why)).collect()
}

/// The places where the old rows have figures and the new rows have none, or have more failed cells.
fn missing(old: &Side, new: &Side) -> Vec<(String, String)> {
    let counted = |group: &CellRepeats| group.values_of("resident").len().max(group.values_of("peak_resident").len());
    let why = |key: &CellKey, group: &CellRepeats| match new.groups.get(key) {
        None => Some("not in the new rows".to_string()),
        Some(now) if counted(group) > 0 && counted(now) == 0 => Some("every process fails in the new rows".into()),
        Some(now) if now.fails_more_than(group) => {
            let [new, old] = [now, group].map(|group| format!("{} of {}", group.failed, group.runs()));
            Some(format!("{new} processes fail in the new rows, {old} did in the old"))
        }
        Some(_) => None,
    };
    let measured = old.groups.iter().filter(|(_, group)| counted(group) > 0);
    measured.filter_map(|(key, group)| Some((key.title(), why(key, group)?))).collect()
}

/// One line for each difference between the two sides: host, build, versions.
fn differs(old: &Side, new: &Side) -> Vec<String> {
    let mut lines = differences(&old.fold.provenance, &new.fold.provenance);
    let joined =
        |versions: &BTreeSet<Version>| versions.iter().map(Version::to_string).collect::<Vec<_>>().join(" and ");
    for (candidate, was) in &old.versions {
        if let Some(is) = new.versions.get(candidate).filter(|is| *is != was) {
            lines.push(format!("{candidate}: version {} in the old, {} in the new", joined(was), joined(is)));
        }
    }
    lines
}

#[cfg(test)]
mod tests;
