//! Spikes: runs of one side that lie far beyond those of the other side. In: two samples. Out: whether such a tail is shown, is excluded,
//! or is open. These are pure functions.
//!
//! Medians do not show spikes: if a fifth of the runs needs ten times the memory, the median stays the same. But a process is killed in its
//! worst run.

use super::ranks::in_order;
use super::stats;
use crate::metrics::Better;

/// The tail of a sample against another sample, in the direction that is worse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tail {
    /// Fewer than a fifth of the runs lie far beyond the other sample's.
    #[default]
    Clear,
    /// The runs are too few to tell.
    Open {
        /// The runs that lie far beyond.
        beyond: usize,
        /// An estimate of the repeats that would tell.
        repeats: usize,
    },
    /// Some runs lie far beyond, more than chance puts there.
    Spikes {
        /// The number of these runs.
        beyond: usize,
    },
}

/// A sample is called clear if a tail of this share of its runs would have put more runs beyond the limit.
const SHARE: f64 = 0.2;

/// The largest share of comparisons with such a tail that may be called clear.
const UNSEEN: f64 = 0.07;

/// The largest share of comparisons without spikes in which spikes may be reported.
const FALSE: f64 = 0.05;

/// The share that the second test adds to `FALSE`. A single run of the other sample cannot move the limit of that test.
const FALSE_AT_TENTH: f64 = 0.02;

/// The tail of the old sample against the new one, and that of the new sample against the old one.
pub fn tails(old: &[f64], new: &[f64], better: Better, margin: f64) -> [Tail; 2] {
    // Where more is better, the tail is among the lowest values.
    let worse = |values: &[f64]| match better {
        Better::Higher => in_order(&values.iter().map(|value| 1.0 / value).collect::<Vec<f64>>()),
        Better::Lower | Better::Neither => in_order(values),
    };
    let (old, new) = (worse(old), worse(new));
    [tail(&old, &new, margin), tail(&new, &old, margin)]
}

/// The tail of `own` against `other`. Both are in order.
fn tail(own: &[f64], other: &[f64], margin: f64) -> Tail {
    let Some((own_middle, middle)) = stats::quantile(own, 0.5).zip(stats::quantile(other, 0.5)) else {
        return Tail::Clear;
    };
    let sizes = (other.len(), own.len());
    // A run lies far beyond if it exceeds the other sample's highest value, `reach`, by more than the margin, and by more than the factor
    // from that sample's median to `reach`. If all runs moved, the limit moves by the ratio of the medians.
    let moved = (own_middle / middle).max(1.0);
    if moved.is_infinite() {
        return Tail::Clear; // a rise from zero has no ratio
    }
    let counts = |reach: f64| {
        let limit = reach * moved * (1.0 + margin).max(reach / middle);
        let beyond = |values: &[f64]| values.len() - values.partition_point(|value| *value <= limit);
        (beyond(other), beyond(own))
    };
    let chance = |(others, beyond): (usize, usize)| stats::drawn_from_second(sizes, others + beyond, beyond);
    let last = other.len() - 1;
    // A single outlier of the other sample would hide all runs below it. But it does not move the value that nine in ten runs stay within.
    let (at_most, at_tenth) = (counts(other[last]), counts(other[last - other.len() / 10]));
    let beyond = at_most.1;
    if chance(at_most) <= FALSE {
        return Tail::Spikes { beyond };
    }
    if chance(at_tenth) <= FALSE_AT_TENTH {
        return Tail::Spikes { beyond: at_tenth.1 };
    }
    match is_clear(own.len(), beyond) {
        true => Tail::Clear,
        false => Tail::Open { beyond, repeats: repeats(own.len(), beyond) },
    }
}

/// Whether a tail of a fifth of the runs would have put more than `beyond` runs beyond the limit.
fn is_clear(runs: usize, beyond: usize) -> bool {
    stats::binomial(runs, SHARE, beyond) <= UNSEEN
}

/// The number of runs of each sample that would decide it, if the same share of them lies beyond.
fn repeats(runs: usize, beyond: usize) -> usize {
    const MOST: usize = 10_000;
    let tells = |count: &usize| {
        let expected = count * beyond / runs;
        is_clear(*count, expected) || stats::drawn_from_second((*count, *count), expected, expected) <= FALSE
    };
    (runs + 1..MOST).find(tells).unwrap_or(MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `count` runs within half a percent of each other. The first `spikes` of them are multiplied by `times`.
    fn runs(count: u32, spikes: u32, times: f64) -> Vec<f64> {
        let one = |at: u32| (100.0 + 0.5 * f64::from(at) / f64::from(count)) * if at < spikes { times } else { 1.0 };
        (0..count).map(one).collect()
    }

    fn of_new(old: &[f64], new: &[f64]) -> Tail {
        tails(old, new, Better::Lower, 0.02)[1]
    }

    #[test]
    fn spikes_are_shown_clear_or_open_by_their_number() {
        let old = runs(40, 0, 1.0);
        let found = [0, 3, 4, 5, 8].map(|spikes| of_new(&old, &runs(40, spikes, 1.5)));
        assert_eq!(found[..2], [Tail::Clear; 2]);
        assert!(matches!(found[2], Tail::Open { beyond: 4, .. }), "{found:?}");
        assert_eq!(found[3..], [5, 8].map(|beyond| Tail::Spikes { beyond }));
        assert_eq!(tails(&runs(40, 8, 10.0), &old, Better::Lower, 0.02), [Tail::Spikes { beyond: 8 }, Tail::Clear]);
        assert_eq!(of_new(&old, &runs(40, 8, 1.015)), Tail::Clear, "within the margin");
        assert_eq!((of_new(&[], &old), of_new(&old, &[])), (Tail::Clear, Tail::Clear), "nothing to compare");
    }

    #[test]
    fn few_runs_say_how_many_would_tell() {
        assert_eq!(of_new(&runs(10, 0, 1.0), &runs(10, 0, 1.0)), Tail::Open { beyond: 0, repeats: 12 });
        assert_eq!(of_new(&runs(12, 0, 1.0), &runs(12, 0, 1.0)), Tail::Clear);
        let Tail::Open { beyond: 1, repeats } = of_new(&runs(10, 0, 1.0), &runs(10, 1, 10.0)) else { panic!() };
        assert!((20..60).contains(&repeats), "{repeats}");
    }

    #[test]
    fn one_outlier_of_the_other_side_does_not_hide_many() {
        let outlier = runs(40, 1, 20.0);
        assert!(matches!(of_new(&outlier, &runs(40, 12, 1.5)), Tail::Spikes { .. }));
        assert_eq!(of_new(&outlier, &outlier), Tail::Clear);
    }

    #[test]
    fn runs_that_all_moved_are_no_spikes() {
        let (old, double) = (runs(40, 0, 1.0), runs(40, 0, 1.0).iter().map(|value| value * 2.0).collect::<Vec<f64>>());
        assert_eq!(tails(&old, &double, Better::Lower, 0.02), [Tail::Clear; 2]);
        assert_eq!(tails(&double, &old, Better::Lower, 0.02), [Tail::Clear; 2]);
        assert_eq!(of_new(&[0.0; 40], &[3.0; 40]), Tail::Clear);
        let and_spikes: Vec<f64> = runs(40, 8, 1.5).iter().map(|value| value * 2.0).collect();
        assert_eq!(of_new(&old, &and_spikes), Tail::Spikes { beyond: 8 });
    }

    #[test]
    fn where_more_is_better_the_tail_is_below() {
        let (old, low) = (runs(40, 0, 1.0), runs(40, 8, 0.1));
        assert_eq!(tails(&old, &low, Better::Higher, 0.02)[1], Tail::Spikes { beyond: 8 });
        assert_eq!(tails(&old, &low, Better::Lower, 0.02), [Tail::Clear; 2]);
    }
}
