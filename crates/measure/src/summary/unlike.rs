//! Two samples with unlike spreads: how much wider this makes the interval of their ratio. In: two samples. Out: the number of pairs that
//! lie outside of it. These are pure functions.
//!
//! The rank test assumes that both distributions have one shape. If the smaller sample spreads further, its statistic varies more than the
//! test expects: with spreads of 2 % and 20 %, and 40 and 10 values, the test at 5 % calls 15 % of equal pairs different. So the variance
//! is measured from the samples, as Brunner and Munzel do it ("The nonparametric Behrens-Fisher problem", 2000).

use super::normal;
use super::stats::{self, ratio};

/// The measured variance is itself uncertain, by this number divided by the size of the smaller sample, as a share. A difference within
/// this counts as chance. So some 95 % of samples with one shape keep the exact interval of the rank test.
const UNCERTAIN: f64 = 2.0;

/// The number of pair ratios below the interval's lower bound, and also above its upper bound. It is the largest number if the samples
/// spread alike. Both samples are sorted. `tail` is the share that may lie beyond each bound.
pub fn pairs_outside(old: &[f64], new: &[f64], tail: f64) -> usize {
    let (n, m) = (old.len() as f64, new.len() as f64);
    let middle = |values| stats::quantile(values, 0.5).unwrap_or(f64::NAN);
    let apart = ratio(middle(new), middle(old));
    if !apart.is_finite() || apart <= 0.0 {
        return usize::MAX;
    }
    // When both medians are made equal, the placements of each sample's values in the other sample show both spreads.
    let moved: Vec<f64> = old.iter().map(|value| value * apart).collect();
    let (of_old, of_new) = (variance(&places(&moved, new)) / n, variance(&places(new, &moved)) / m);
    let measured = of_old + of_new;
    let alike = (n + m + 1.0) / (12.0 * n * m);
    if measured <= alike * (1.0 + UNCERTAIN / n.min(m)) {
        return usize::MAX;
    }
    let freedom = measured * measured / (of_old * of_old / (n - 1.0) + of_new * of_new / (m - 1.0));
    let off = student_quantile(tail, freedom) * measured.sqrt() * n * m;
    (n * m / 2.0 - off - 1.0).floor().max(0.0) as usize
}

/// For each value, the share of the others that is below it. Ties count half.
fn places(values: &[f64], others: &[f64]) -> Vec<f64> {
    let place = |value: &f64| {
        let below = others.partition_point(|other| other < value);
        let up_to = others.partition_point(|other| other <= value);
        (below + up_to) as f64 / 2.0 / others.len() as f64
    };
    values.iter().map(place).collect()
}

fn variance(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / (values.len() as f64 - 1.0)
}

/// The t for which P(T > t) is `tail`, with this many degrees of freedom. It is computed from the first terms of Cornish and Fisher's
/// series.
fn student_quantile(tail: f64, freedom: f64) -> f64 {
    let z = normal::quantile(tail);
    let (two, four) = (z * z, z.powi(4));
    let terms = [
        (two + 1.0) / 4.0,
        (5.0 * four + 16.0 * two + 3.0) / 96.0,
        (3.0 * four * two + 19.0 * four + 17.0 * two - 15.0) / 384.0,
    ];
    z * (1.0 + terms.iter().rev().fold(0.0, |sum, term| (sum + term) / freedom))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quantiles_are_those_of_textbooks() {
        // Two-sided 5 % and 1 %.
        for (freedom, wanted) in [(4.0, [2.776, 4.604]), (9.0, [2.262, 3.250]), (30.0, [2.042, 2.750])] {
            let found = [0.025, 0.005].map(|tail| student_quantile(tail, freedom));
            assert!(found.iter().zip(wanted).all(|(found, wanted)| (found / wanted - 1.0).abs() < 0.02), "{found:?}");
        }
    }

    #[test]
    fn one_shape_stays_exact_and_a_few_that_spread_further_widen() {
        let around = |count: u32, spread: f64| -> Vec<f64> {
            (0..count).map(|at| 100.0 * (1.0 + spread * (f64::from(at) / f64::from(count - 1) - 0.5))).collect()
        };
        assert_eq!(pairs_outside(&around(20, 0.1), &around(20, 0.1), 0.025), usize::MAX);
        assert_eq!(pairs_outside(&around(5, 0.01), &around(5, 1.0), 0.025), 0, "five against five");
        // Against a point the median of ten is bounded by its second and ninth value, with 40 and 80 pairs beyond. The rank
        // test would leave out 116.
        let few = pairs_outside(&around(40, 0.001), &around(10, 1.0), 0.025);
        assert!((40..=80).contains(&few), "{few}");
        assert_eq!(pairs_outside(&[0.0; 5], &[1.0; 5], 0.025), usize::MAX, "no ratio");
    }
}
