//! Verdicts: is one group of samples better than another, worse, equal, or is that undecided? In: two groups and a
//! metric. Out: the ratio of medians with its interval, and a [`Verdict`].

use super::fold::CellRepeats;
use super::normal;
use super::quantiles;
use super::ranks::{self, LEAST_SAMPLES, MISSES, RankTest, misses_in, rank_test};
use super::stats;
use super::tail::{Tail, tails};
use crate::metrics::{Better, Metric};
use allocanary_text::units::Unit;

/// The comparison of one group with another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GroupComparison {
    /// The compared quantile of the runs; `None` for the median.
    pub quantile: Option<f64>,
    /// The old group's median, or its quantile.
    pub old: f64,
    /// The new group's median, or its quantile.
    pub new: f64,
    /// Number of samples of the old and the new group.
    pub n: (usize, usize),
    /// The bounds of the 95 % interval of `new / old`; `None` for too few samples: fewer than five, for a median.
    pub interval: Option<(f64, f64)>,
    /// The interval that decides whether a gate is broken. In at most 5 % of families, any of these intervals lies wrongly beyond a bound.
    /// `None` if there are too few samples, or if nobody asked for it.
    pub of_family: Option<(f64, f64)>,
    /// The tails of the old and of the new group, each against the other.
    pub tails: [Tail; 2],
    /// The rank test's p value, for this pair alone. It is 0 for a quantile, which only the interval judges.
    pub p: f64,
    /// The lowest p value that these samples could have had. Ties make it larger.
    pub least_p: f64,
    /// Differences below this share count as equal.
    pub margin: f64,
    /// The conclusion.
    pub verdict: Verdict,
    /// Number of comparisons that are judged together with this one.
    pub family: usize,
    /// Whether a small difference is undecided because the machine was too busy.
    pub doubted: bool,
}

impl GroupComparison {
    /// `new / old`.
    pub fn ratio(&self) -> f64 {
        stats::ratio(self.new, self.old)
    }

    /// The same comparison, if the machine was too busy. `others` is the number of other tasks per CPU that wanted to run. A difference
    /// that the load can explain is undecided: load can change memory by some percent, and a time by a factor of up to `1 + others`. An
    /// undecided comparison whose interval excludes 1 is doubted too, because a gate looks only at the interval.
    pub fn on_a_busy_machine(self, unit: Unit, others: f64) -> GroupComparison {
        let is_memory = matches!(unit, Unit::Bytes | Unit::Ratio);
        let moved = 1.0 + if is_memory { MOVED_MEMORY } else { others };
        let surely = |bound: f64| self.interval.is_some_and(|(low, high)| low > bound || high < 1.0 / bound);
        let is_explained = match self.is_within_margin() {
            // The medians are equal, but there are spikes, or there may be.
            true => !is_memory,
            false => surely(1.0) && !surely(moved),
        };
        match self.verdict != Verdict::Equal && is_explained {
            true => GroupComparison { verdict: Verdict::Undecided, doubted: true, ..self },
            false => self,
        }
    }

    /// The number of runs of the new group that lie far beyond those of the old one, if that is shown.
    pub fn spikes(&self) -> Option<usize> {
        shown(self.tails[1])
    }

    /// The number of runs of the old group that lie far beyond those of the new one, if that is shown.
    pub fn spikes_gone(&self) -> Option<usize> {
        shown(self.tails[0])
    }

    /// The number of repeats that would show whether there are spikes, if the verdict is "equal". `None` unless the samples leave that
    /// open.
    pub fn repeats_to_see_spikes(&self) -> Option<usize> {
        self.open_tail().filter(|_| self.verdict == Verdict::Equal)
    }

    /// How much worse the new group is, at least and at most, by the interval's bounds. These are shares, and negative if it is better.
    /// `None` without an interval, and for a metric without a better direction.
    pub fn worsening(&self, better: Better) -> Option<(f64, f64)> {
        worsening(self.interval?, better)
    }

    /// How much worse the new group is at least, by the family's wider interval, so that it is rarely due to chance. `None` as for
    /// [`worsening`](Self::worsening).
    pub fn surely_worse(&self, better: Better) -> Option<f64> {
        Some(worsening(self.of_family?, better)?.0)
    }

    /// An estimate of the repeats that would decide on which side of `1 + bound` the ratio lies, from the present
    /// spread. `None` if that is more than anybody runs. An interval shrinks with the square root of the number of
    /// samples.
    pub fn repeats_to_pass(&self, bound: f64) -> Option<usize> {
        self.repeats(((1.0 + bound).ln() - self.ratio().ln()).abs(), FALSE_DISCOVERIES / self.family as f64)
    }

    /// The same for a gate. A gate is broken only by the wider interval of the family.
    pub fn repeats_to_judge(&self, bound: f64) -> Option<usize> {
        let misses = misses_in(self.family);
        let is_beyond = (self.ratio() - 1.0 - bound) * bound.signum() > 0.0;
        let wider = normal::quantile(misses / 2.0) / normal::quantile(MISSES / 2.0);
        let wanted = ((1.0 + bound).ln() - self.ratio().ln()).abs();
        match is_beyond {
            true => self.repeats(wanted / wider, misses),
            false => self.repeats(wanted, MISSES),
        }
    }

    /// An estimate of the repeats that would give another verdict than undecided.
    pub fn repeats_to_decide(&self) -> Option<usize> {
        if self.is_within_margin() {
            return self.open_tail();
        }
        let off = self.ratio().ln().abs();
        let to_equal = (1.0 + self.margin).ln() - off;
        let to_differ = if (self.ratio() - 1.0).abs() >= self.least_difference() { off } else { 0.0 };
        self.repeats(to_equal.max(to_differ), FALSE_DISCOVERIES / self.family as f64)
    }

    /// The number of repeats that make half of the interval's width as small as `wanted`, in logarithms. They are also enough for a single
    /// difference to be significant at the level `misses`.
    fn repeats(&self, wanted: f64, misses: f64) -> Option<usize> {
        if self.doubted {
            return None;
        }
        const MOST: f64 = 10_000.0;
        // With more samples, as many ties are expected.
        let by_ties = (self.least_p / ranks::least_p(self.n.0, self.n.1)).max(1.0);
        let visible = match self.quantile {
            Some(q) => quantiles::least_samples(q, misses),
            None => (LEAST_SAMPLES..MOST as usize).find(|n| ranks::least_p(*n, *n) * by_ties <= misses)?,
        };
        let Some((low, high)) = self.interval else { return Some(visible) };
        let now = self.n.0.min(self.n.1);
        let factor = (high / low).ln() / 2.0 / wanted;
        let repeats = (now as f64 * factor * factor).ceil();
        (repeats <= MOST).then(|| (repeats as usize).max(visible).max(now + 1))
    }

    /// Whether the whole interval lies within the margin.
    fn is_within_margin(&self) -> bool {
        self.interval.is_some_and(|(low, high)| low >= 1.0 - self.margin && high <= 1.0 + self.margin)
    }

    /// The number of repeats that would show whether there are spikes. `None` unless that is open.
    fn open_tail(&self) -> Option<usize> {
        let repeats = self.tails.iter().filter_map(|tail| match tail {
            Tail::Open { repeats, .. } => Some(*repeats),
            _ => None,
        });
        repeats.max()
    }

    /// A ratio that differs from 1 by less than this is not a relevant difference.
    fn least_difference(&self) -> f64 {
        self.margin.min(MARGIN)
    }
}

/// An interval of `new / old` as shares of worsening.
fn worsening((low, high): (f64, f64), better: Better) -> Option<(f64, f64)> {
    match better {
        Better::Lower => Some((low - 1.0, high - 1.0)),
        Better::Higher => Some((1.0 - high, 1.0 - low)),
        Better::Neither => None,
    }
}

fn shown(tail: Tail) -> Option<usize> {
    match tail {
        Tail::Spikes { beyond } => Some(beyond),
        Tail::Clear | Tail::Open { .. } => None,
    }
}

/// The conclusion of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The new group is better.
    Better,
    /// The new group is worse.
    Worse,
    /// They differ, and neither is better: the metric has no better direction, or one side has spikes and is not worse in
    /// the median.
    Different,
    /// The whole interval of the medians lies within the margin. No run lies far beyond those of the other side, or so few that no tail of
    /// a fifth of the runs is likely.
    Equal,
    /// The samples do not decide: their spread is too large, or they are too few.
    Undecided,
}

impl Verdict {
    /// The word in reports.
    pub const fn text(self) -> &'static str {
        match self {
            Verdict::Better => "better",
            Verdict::Worse => "worse",
            Verdict::Different => "different",
            Verdict::Equal => "equal",
            Verdict::Undecided => "undecided",
        }
    }
}

/// The false discovery rate: at most this share of the differences in one metric of one workload is due to chance.
const FALSE_DISCOVERIES: f64 = 0.05;

/// The share by which load on a machine can change the memory of its processes between two runs.
const MOVED_MEMORY: f64 = 0.05;

/// Medians closer than this are called equal, even if their difference is certain: one page more or less at start, or
/// the name of a setting, changes RSS by more. See METHOD.md.
pub const MARGIN: f64 = 0.02;

/// The values of the old and the new group.
type Pair<'a> = (&'a [f64], &'a [f64]);

/// Compares many pairs (old, new) at once, so that the false discovery rate is bounded over all of them. Ratios within
/// `margin`, a share such as [`MARGIN`], are equal.
pub fn compare_groups<'a>(
    pairs: impl Iterator<Item = (&'a CellRepeats, &'a CellRepeats)>,
    metric: &Metric,
    margin: f64,
) -> Vec<GroupComparison> {
    let pairs: Vec<Pair> = pairs.map(|(old, new)| (old.values_of(&metric.name), new.values_of(&metric.name))).collect();
    let tests: Vec<RankTest> = pairs.iter().map(|(old, new)| rank_test(old, new)).collect();
    // A pair without figures on one side is no comparison. It must not make it harder for the others to be significant.
    let is_one: Vec<bool> = pairs.iter().map(|(old, new)| !old.is_empty() && !new.is_empty()).collect();
    let judged = tests.iter().zip(&is_one).filter(|(_, is_one)| **is_one);
    let judged: Vec<f64> = judged.map(|(test, _)| test.p).collect();
    let mut significant = stats::false_discovery(&judged, FALSE_DISCOVERIES).into_iter();
    let median = |values: &[f64]| stats::median(values).unwrap_or(f64::NAN);
    let mut compare = |(old, new): &Pair, test: &RankTest, is_one: bool| {
        let compared = GroupComparison {
            quantile: None,
            old: median(old),
            new: median(new),
            n: (old.len(), new.len()),
            interval: ranks::ratio_interval(old, new, MISSES),
            of_family: None,
            tails: tails(old, new, metric.better, margin),
            p: test.p,
            least_p: test.least,
            margin,
            verdict: Verdict::Undecided,
            family: judged.len().max(1),
            doubted: false,
        };
        let stands = is_one && significant.next().unwrap_or(false);
        GroupComparison { verdict: verdict(&compared, metric.better, stands), ..compared }
    };
    pairs.iter().zip(&tests).zip(is_one.iter()).map(|((pair, test), is_one)| compare(pair, test, *is_one)).collect()
}

/// Compares the quantile `q` of many pairs (old, new) at once. Only the interval of the family decides each verdict.
pub fn compare_quantiles<'a>(
    pairs: impl Iterator<Item = (&'a CellRepeats, &'a CellRepeats)>,
    metric: &Metric,
    q: f64,
    margin: f64,
) -> Vec<GroupComparison> {
    let pairs: Vec<Pair> = pairs.map(|(old, new)| (old.values_of(&metric.name), new.values_of(&metric.name))).collect();
    let family = pairs.iter().filter(|(old, new)| !old.is_empty() && !new.is_empty()).count().max(1);
    let compare = |(old, new): &Pair| {
        let (was, is) = quantiles::quantiles(old, new, q);
        let of_family = quantiles::ratio_interval(old, new, q, misses_in(family));
        let compared = GroupComparison {
            quantile: Some(q),
            old: was,
            new: is,
            n: (old.len(), new.len()),
            interval: quantiles::ratio_interval(old, new, q, MISSES),
            of_family,
            tails: [Tail::Clear; 2],
            p: 0.0,
            least_p: 0.0,
            margin,
            verdict: Verdict::Undecided,
            family,
            doubted: false,
        };
        let stands = of_family.is_some_and(|(low, high)| low > 1.0 || high < 1.0);
        GroupComparison { verdict: verdict(&compared, metric.better, stands), ..compared }
    };
    pairs.iter().map(compare).collect()
}

/// The comparison of medians of these groups, with the interval that decides whether a gate is broken.
pub fn with_family_interval(
    comparison: GroupComparison,
    old: &CellRepeats,
    new: &CellRepeats,
    metric: &Metric,
) -> GroupComparison {
    let (old, new) = (old.values_of(&metric.name), new.values_of(&metric.name));
    let of_family = match misses_in(comparison.family) {
        misses if misses == MISSES => comparison.interval,
        misses => ranks::ratio_interval(old, new, misses),
    };
    GroupComparison { of_family, ..comparison }
}

/// The verdict. `stands` means that the difference is significant.
fn verdict(comparison: &GroupComparison, better: Better, stands: bool) -> Verdict {
    let Some((low, high)) = comparison.interval else { return Verdict::Undecided };
    let ratio = comparison.ratio();
    if comparison.is_within_margin() {
        let is_open = |tail: &Tail| matches!(tail, Tail::Open { beyond: 1.., .. });
        return match comparison.spikes().or(comparison.spikes_gone()) {
            Some(_) => Verdict::Different,
            None if comparison.tails.iter().any(is_open) => Verdict::Undecided,
            None => Verdict::Equal,
        };
    }
    let leaves_one_out = low > 1.0 || high < 1.0;
    if !stands || !leaves_one_out || (ratio - 1.0).abs() < comparison.least_difference() {
        return Verdict::Undecided;
    }
    match (better, ratio > 1.0) {
        (Better::Neither, _) => Verdict::Different,
        (Better::Lower, false) | (Better::Higher, true) if comparison.spikes().is_some() => Verdict::Different,
        (Better::Lower, false) | (Better::Higher, true) => Verdict::Better,
        (Better::Lower, true) | (Better::Higher, false) => Verdict::Worse,
    }
}

#[cfg(test)]
mod tests;
