//! Quantiles of a few runs, such as the peak that nine of ten runs stay within. In: two samples and a quantile. Out: the ratio of their
//! quantiles with its interval, or how many runs that takes. These are pure functions.

use super::ranks::in_order;
use super::stats;

/// The quantiles `q` of the old and the new sample.
pub fn quantiles(old: &[f64], new: &[f64], q: f64) -> (f64, f64) {
    let of = |values: &[f64]| stats::quantile(&in_order(values), q).unwrap_or(f64::NAN);
    (of(old), of(new))
}

/// The interval of the ratio of the quantiles `q`, `new / old`. `misses` is the share of intervals that may miss the true ratio. `None` if
/// a sample is too small to bound its quantile, or has a value that is not positive.
///
/// Each quantile is bounded by values of its own sample. The binomial distribution says which ones, so nothing is assumed about the shape.
/// These bounds are combined into those of the ratio as Zou and Donner do it ("Construction of confidence limits about effect measures",
/// 2008).
pub fn ratio_interval(old: &[f64], new: &[f64], q: f64, misses: f64) -> Option<(f64, f64)> {
    let of = |values: &[f64]| {
        let sorted = in_order(values);
        let (low, high) = places(sorted.len(), q, misses / 2.0)?;
        let three = [sorted[low], stats::quantile(&sorted, q)?, sorted[high]];
        (three[0] > 0.0).then(|| three.map(f64::ln))
    };
    let ([old_low, old, old_high], [new_low, new, new_high]) = (of(old)?, of(new)?);
    let (least, most) = ((new - new_low).hypot(old_high - old), (new_high - new).hypot(old - old_low));
    Some(((new - old - least).exp(), (new - old + most).exp()))
}

/// The smallest number of runs on each side for an interval.
pub fn least_samples(q: f64, misses: f64) -> usize {
    // With fewer runs, all values may lie on one side of the quantile by chance.
    ((misses / 2.0).ln() / q.max(1.0 - q).ln()).ceil() as usize
}

/// The positions of the bounds of the quantile `q` among `count` sorted values. `tail` is the share that may lie beyond each bound.
fn places(count: usize, q: f64, tail: f64) -> Option<(usize, usize)> {
    // If at most `place` of the values are below the quantile, the value at `place` is above it.
    let low = (0..count).take_while(|place| stats::binomial(count, q, *place) <= tail).last()?;
    let high = (0..count).find(|place| 1.0 - stats::binomial(count, q, *place) <= tail)?;
    Some((low, high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bounds_are_those_of_textbooks() {
        // The median of ten values: the second to the ninth, 97.9 %.
        assert_eq!(places(10, 0.5, 0.025), Some((1, 8)));
        assert_eq!(places(5, 0.5, 0.025), None);
        // 0.9^36 is the first below 2.5 %.
        assert_eq!((least_samples(0.9, 0.05), places(35, 0.9, 0.025)), (36, None));
        assert_eq!(least_samples(0.1, 0.05), 36);
    }

    #[test]
    fn the_interval_holds_the_ratio_and_needs_positive_values() {
        let old: Vec<f64> = (0..40).map(|at| 100.0 + f64::from(at)).collect();
        let new: Vec<f64> = old.iter().map(|value| value * 1.5).collect();
        let (was, is) = quantiles(&old, &new, 0.9);
        let (low, high) = ratio_interval(&old, &new, 0.9, 0.05).unwrap();
        assert!((is / was - 1.5).abs() < 1e-12 && 1.4 < low && low < 1.5 && 1.5 < high && high < 1.6, "{low} {high}");
        assert_eq!(ratio_interval(&old, &[0.0; 40], 0.9, 0.05), None);
        assert_eq!(ratio_interval(&old[..35], &new, 0.9, 0.05), None);
    }
}
