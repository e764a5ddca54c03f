//! The effect of a change, measured on few replicas. In: the logarithm of each replica's memory. Out: the ratio of changed to
//! unchanged with a 95 % interval, and a word. Nothing else is read or written.
//!
//! One changed replica does not show how much changed replicas differ from each other. So the spread is computed from all other
//! replicas, before and after the change. The interval is Student's with the degrees of freedom of these groups. With two others and
//! no readings before the change, it is 12.7 standard errors wide to each side; with three replicas before as well, it is 3.2.
//! docs/lab/method.md says what this assumes.

use serde::Serialize;

/// The verdict of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TrialWord {
    /// Less memory: the interval excludes 1, and the ratio that was found is beyond the margin.
    Better,
    /// More memory, by the same rule in the other direction.
    Worse,
    /// The whole interval is within the margin.
    Equal,
    /// None of the three.
    Undecided,
}

impl TrialWord {
    /// The verdict as a word.
    pub fn text(self) -> &'static str {
        match self {
            TrialWord::Better => "better",
            TrialWord::Worse => "worse",
            TrialWord::Equal => "equal",
            TrialWord::Undecided => "undecided",
        }
    }
}

/// The memory of changed replicas as a share of that of unchanged ones.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MemoryShare {
    /// The ratio.
    pub ratio: f64,
    /// The lower bound of its 95 % interval.
    #[serde(rename = "low_ratio")]
    pub low: f64,
    /// The upper bound.
    #[serde(rename = "high_ratio")]
    pub high: f64,
    /// The standard deviation between replicas, as a share.
    #[serde(rename = "spread_ratio")]
    pub spread: f64,
    /// Degrees of freedom.
    pub freedom: usize,
}

/// The least spread between replicas that is used. A smaller one is not credible: the kernel's counts lag, and a replica's last hour does
/// not show all of its memory.
const LEAST_SPREAD: f64 = 0.005;

/// The effect, from logarithms. `spread_of` are further groups of unchanged replicas; they count only for the spread. `None` if there
/// is no changed or no other replica, or if no group shows a spread.
pub fn effect(changed: &[f64], others: &[f64], spread_of: &[&[f64]]) -> Option<MemoryShare> {
    let (mut squares, mut freedom) = (0.0, 0);
    for group in [changed, others].iter().chain(spread_of).filter(|group| group.len() > 1) {
        let middle = mean(group)?;
        squares += group.iter().map(|value| (value - middle).powi(2)).sum::<f64>();
        freedom += group.len() - 1;
    }
    let apart = mean(changed)? - mean(others)?;
    if freedom == 0 || !apart.is_finite() || !squares.is_finite() {
        return None;
    }
    let spread = (squares / freedom as f64).sqrt().max(LEAST_SPREAD);
    let error = spread * (1.0 / changed.len() as f64 + 1.0 / others.len() as f64).sqrt();
    let off = student(freedom) * error;
    Some(MemoryShare { ratio: apart.exp(), low: (apart - off).exp(), high: (apart + off).exp(), spread, freedom })
}

impl MemoryShare {
    /// The verdict for this effect. A difference below the share `margin` does not matter.
    pub fn word(&self, margin: f64) -> TrialWord {
        let (least, most) = (1.0 - margin, 1.0 + margin);
        match self {
            one if one.low > least && one.high < most => TrialWord::Equal,
            one if one.high < 1.0 && one.ratio < least => TrialWord::Better,
            one if one.low > 1.0 && one.ratio > most => TrialWord::Worse,
            _ => TrialWord::Undecided,
        }
    }
}

/// The arithmetic mean; `None` if there is no value.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Two-sided 5 % points of Student's distribution, for 1 degree of freedom and more.
const STUDENT: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/// The 5 % point for this many degrees of freedom. Above 30 it is computed from the first terms of the series around the normal
/// distribution's point.
fn student(freedom: usize) -> f64 {
    let many = || 1.96 + 2.372 / freedom as f64 + 2.82 / (freedom as f64).powi(2);
    match freedom {
        0 => f64::INFINITY,
        few => STUDENT.get(few - 1).copied().unwrap_or_else(many),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logs(values: &[f64]) -> Vec<f64> {
        values.iter().map(|value| value.ln()).collect()
    }

    #[test]
    fn the_interval_is_that_of_a_textbook() {
        // Others 98 and 102: a standard deviation of 2.83 % with one degree of freedom; the error of the difference is 3.46 %.
        let one = effect(&logs(&[50.0]), &logs(&[98.0, 102.0]), &[]).unwrap();
        assert!((one.ratio - 0.500).abs() < 0.001 && (one.spread - 0.0283).abs() < 1e-4 && one.freedom == 1);
        assert!(((one.high / one.ratio).ln() - 12.706 * one.spread * 1.5_f64.sqrt()).abs() < 1e-9);
        assert_eq!(one.word(0.05), TrialWord::Better);
        // Three replicas before the change, with the same spread, make the interval 3.99 times as narrow.
        let before = logs(&[48.0, 50.0, 52.0]);
        let more = effect(&logs(&[50.0]), &logs(&[98.0, 102.0]), &[&before]).unwrap();
        assert_eq!(more.freedom, 3);
        assert!((more.high / more.ratio).ln() < (one.high / one.ratio).ln() / 3.0, "{more:?}");
    }

    #[test]
    fn the_words_are_by_the_interval_and_the_margin() {
        let of =
            |low: f64, ratio: f64, high: f64| MemoryShare { ratio, low, high, spread: 0.01, freedom: 3 }.word(0.05);
        assert_eq!(of(0.97, 1.0, 1.03), TrialWord::Equal);
        assert_eq!(of(0.96, 0.97, 0.98), TrialWord::Equal, "it is less, and it makes no difference");
        assert_eq!(of(0.70, 0.80, 0.92), TrialWord::Better);
        assert_eq!(of(0.90, 0.97, 0.99), TrialWord::Undecided);
        assert_eq!(of(0.80, 1.0, 1.25), TrialWord::Undecided);
        assert_eq!(of(1.02, 1.10, 1.19), TrialWord::Worse);
    }

    #[test]
    fn replicas_that_are_all_the_same_have_an_interval() {
        let one = effect(&[0.0], &[0.0, 0.0], &[&[1.0, 1.0, 1.0]]).unwrap();
        assert_eq!((one.spread, one.freedom), (LEAST_SPREAD, 3));
        assert!(one.low < 0.99 && one.high > 1.01);
        assert_eq!(one.word(0.05), TrialWord::Equal);
    }

    #[test]
    fn what_shows_no_spread_has_no_effect() {
        assert_eq!(effect(&[0.0], &[0.0], &[]), None);
        assert_eq!(effect(&[], &[0.0, 1.0], &[]), None);
        assert_eq!(effect(&[f64::NAN], &[0.0, 1.0], &[]), None);
        assert_eq!(effect(&[f64::NEG_INFINITY], &[0.0, 1.0], &[]), None);
    }

    #[test]
    fn the_points_go_on_without_a_step() {
        assert!(
            (student(30) - 2.042).abs() < 1e-3
                && (student(31) - 2.040).abs() < 2e-3
                && (student(60) - 2.000).abs() < 2e-3
        );
        assert!((1..200).all(|freedom| student(freedom) > student(freedom + 1)));
    }
}
