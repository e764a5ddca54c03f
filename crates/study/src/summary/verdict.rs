//! Verdicts: is one group of samples better than another, worse, or is there no difference? In: two groups and a
//! metric. Out: the ratio of medians with its interval, and a word.

use super::fold::Group;
use super::metrics::{Better, Metric};
use super::{metric_index, stats};

/// One group against another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// The old group's median.
    pub old: f64,
    /// The new group's median.
    pub new: f64,
    /// The bounds of the 95 % interval of `new / old`.
    pub interval: (f64, f64),
    /// The Mann-Whitney p value, for this pair alone.
    pub p: f64,
    /// What it means.
    pub verdict: Verdict,
}

impl Comparison {
    /// `new / old`.
    pub fn ratio(&self) -> f64 {
        self.new / self.old
    }
}

/// What a comparison means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The new group is better.
    Better,
    /// The new group is worse.
    Worse,
    /// It differs, and the metric has no better way.
    Different,
    /// Not more apart than samples of one and the same thing would be, or by less than matters.
    NoDifference,
    /// Too few samples to tell one pair apart among so many.
    TooFew,
}

impl Verdict {
    /// In plain language.
    pub const fn text(self) -> &'static str {
        match self {
            Verdict::Better => "better",
            Verdict::Worse => "worse",
            Verdict::Different => "different",
            Verdict::NoDifference => "no difference",
            Verdict::TooFew => "too few samples to tell",
        }
    }
}

/// Of the differences that a table shows in one metric of one workload, at most this share is there by chance.
const FALSE_DISCOVERIES: f64 = 0.05;

/// Medians closer than this are called equal, however sure their difference is: a page more or less at start, or the
/// name of a setting, moves RSS by more. See METHOD.md.
const MARGIN: f64 = 0.02;

/// The values of the old and of the new.
type Pair<'a> = (&'a [f64], &'a [f64]);

/// Compares many pairs (old, new) at once, so that chance finds are bounded over all of them.
pub fn compare_groups<'a>(pairs: impl Iterator<Item = (&'a Group, &'a Group)>, metric: &Metric) -> Vec<Comparison> {
    let at = metric_index(metric.name);
    let pairs: Vec<Pair> = pairs.map(|(old, new)| (old.values[at].as_slice(), new.values[at].as_slice())).collect();
    let p_values: Vec<f64> = pairs.iter().map(|(old, new)| stats::mann_whitney(old, new)).collect();
    let stand = stats::false_discovery(&p_values, FALSE_DISCOVERIES);
    let compare = |old: &[f64], new: &[f64], p: f64, stands: bool| {
        let interval = stats::ratio_interval(old, new, super::BOOTSTRAP_SEED).unwrap_or((f64::NAN, f64::NAN));
        let median = |values| stats::median(values).unwrap_or(f64::NAN);
        let compared = Comparison { old: median(old), new: median(new), interval, p, verdict: Verdict::NoDifference };
        let verdict = match stands {
            true => verdict(&compared, metric.better),
            // "No difference" is said only where a lone difference, however large, could have been seen.
            false if stats::least_p(old.len(), new.len()) > FALSE_DISCOVERIES / pairs.len() as f64 => Verdict::TooFew,
            false => Verdict::NoDifference,
        };
        Comparison { verdict, ..compared }
    };
    let all = pairs.iter().zip(p_values).zip(stand);
    all.map(|(((old, new), p), stands)| compare(old, new, p, stands)).collect()
}

/// The verdict on a difference that chance does not explain.
fn verdict(comparison: &Comparison, better: Better) -> Verdict {
    let ratio = comparison.ratio();
    let (low, high) = comparison.interval;
    // The test looks at ranks and the interval at medians: both must see the difference.
    let sure = low > 1.0 || high < 1.0;
    if !sure || (ratio - 1.0).abs() < MARGIN {
        return Verdict::NoDifference;
    }
    match (better, ratio > 1.0) {
        (Better::Neither, _) => Verdict::Different,
        (Better::Lower, false) | (Better::Higher, true) => Verdict::Better,
        (Better::Lower, true) | (Better::Higher, false) => Verdict::Worse,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::METRICS;

    fn group(rss: &[f64]) -> Group {
        let mut values = vec![Vec::new(); METRICS.len()];
        values[metric_index("rss")] = rss.to_vec();
        values[metric_index("throughput")] = rss.to_vec();
        Group { values, ..Group::default() }
    }

    fn verdict_of(old: &[f64], new: &[f64], metric: &str) -> Verdict {
        let (old, new) = (group(old), group(new));
        compare_groups([(&old, &new)].into_iter(), &METRICS[metric_index(metric)])[0].verdict
    }

    #[test]
    fn verdicts_follow_the_samples() {
        let around = |middle: f64| -> Vec<f64> { (0..8).map(|i| middle + f64::from(i) * 0.001).collect() };
        assert_eq!(verdict_of(&around(1.0), &around(2.0), "rss"), Verdict::Worse);
        assert_eq!(verdict_of(&around(2.0), &around(1.0), "rss"), Verdict::Better);
        assert_eq!(verdict_of(&around(1.0), &around(2.0), "throughput"), Verdict::Better);
        assert_eq!(verdict_of(&around(1.0), &around(1.0), "rss"), Verdict::NoDifference);
        assert_eq!(verdict_of(&around(1.0), &around(1.01), "rss"), Verdict::NoDifference, "within the margin");
        assert_eq!(verdict_of(&[1.0, 1.1, 1.2], &[5.0, 5.1, 5.2], "rss"), Verdict::TooFew);
        let five = |middle: f64| -> Vec<f64> { around(middle)[..5].to_vec() };
        let (old, new) = (group(&five(1.0)), group(&five(10.0)));
        let pairs: Vec<(&Group, &Group)> = (0..9).map(|at| (&old, if at == 0 { &new } else { &old })).collect();
        let lone = compare_groups(pairs.into_iter(), &METRICS[metric_index("rss")])[0].verdict;
        assert_eq!(lone, Verdict::TooFew, "ten times as much, and not to be told from chance among nine");
        let skewed = [41.0, 54.0, 73.0, 76.0, 140.0];
        assert_eq!(verdict_of(&skewed, &[50.0, 60.0, 70.0, 80.0, 90.0], "rss"), Verdict::NoDifference);
    }
}
