//! Statistics. In: slices. Out: medians, their intervals, and which of many p values are significant. These are pure functions.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use allocanary_sys::rng::Rng;

/// `new / old`; 1 if both are 0.
pub fn ratio(new: f64, old: f64) -> f64 {
    if new == old { 1.0 } else { new / old }
}

/// The middle of `values`, or the mean of the two in the middle; `None` if there are no values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    quantile(&sorted, 0.5)
}

/// The quantile `q` of sorted values, interpolated between neighbours.
pub fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let at = q.clamp(0.0, 1.0) * last as f64;
    let (low, high) = (at.floor() as usize, at.ceil() as usize);
    Some(sorted[low] + (sorted[high] - sorted[low]) * (at - low as f64))
}

/// Number of bootstrap draws. More draws change the bounds by less than the samples' own spread.
const DRAWS: usize = 1000;

/// The 95 % bootstrap interval of the median: medians of samples drawn from `sorted` with replacement (percentile
/// method). With one value both bounds are that value. The interval then has no meaning, and `n` next to it shows why.
pub fn median_interval(sorted: &[f64], seed: u64) -> Option<(f64, f64)> {
    if sorted.is_empty() {
        return None;
    }
    bounds(middles(sorted.len(), seed).iter().map(|middle| middle.of(sorted)).collect())
}

/// The positions of the median of one draw in the sorted sample: twice the same position, or the two in the middle.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Middle(u32, u32);

type DrawnBySizeAndSeed = HashMap<(usize, u64), Rc<[Middle]>>;

impl Middle {
    fn of(self, sorted: &[f64]) -> f64 {
        let (low, high) = (sorted[self.0 as usize], sorted[self.1 as usize]);
        low + (high - low) / 2.0
    }
}

/// The medians of all draws from a sample of `count` values, in order. The drawn positions depend only on the sample's
/// size, so a report with thousands of groups draws once for each size that occurs.
fn middles(count: usize, seed: u64) -> Rc<[Middle]> {
    thread_local! {
        static DRAWN: RefCell<DrawnBySizeAndSeed> = RefCell::default();
    }
    let draw = || {
        let mut rng = Rng::new(seed);
        let mut places = vec![0_u32; count];
        let one = |_| {
            places.fill_with(|| rng.below(count) as u32);
            let (below, upper, _) = places.select_nth_unstable(count / 2);
            let upper = *upper;
            let lower = if count.is_multiple_of(2) { below.iter().copied().max().unwrap_or(upper) } else { upper };
            Middle(lower, upper)
        };
        let mut drawn: Vec<Middle> = (0..DRAWS).map(one).collect();
        drawn.sort_unstable();
        drawn.into()
    };
    DRAWN.with_borrow_mut(|drawn| drawn.entry((count, seed)).or_insert_with(draw).clone())
}

/// The bounds of 95 % of the draws. It does not sort, because this is most of a large report's work.
fn bounds(mut draws: Vec<f64>) -> Option<(f64, f64)> {
    if draws.is_sorted() {
        return Some((quantile(&draws, 0.025)?, quantile(&draws, 0.975)?));
    }
    let last = draws.len().checked_sub(1)?;
    let mut bound = |q: f64| {
        let at = q * last as f64;
        let (_, low, above) = draws.select_nth_unstable_by(at.floor() as usize, f64::total_cmp);
        let high = above.iter().copied().min_by(f64::total_cmp).unwrap_or(*low);
        *low + (high - *low) * at.fract()
    };
    Some((bound(0.025), bound(0.975)))
}

/// The probability of at most `most` hits in `count` draws, each a hit with probability `p`.
pub fn binomial(count: usize, p: f64, most: usize) -> f64 {
    // Computed with logarithms, because a power of a thousand is below the smallest number.
    let odds = (p / (1.0 - p)).ln();
    let mut term = (1.0 - p).ln() * count as f64;
    let mut sum = term.exp();
    for hits in 0..most.min(count) {
        term += ((count - hits) as f64 / (hits + 1) as f64).ln() + odds;
        sum += term.exp();
    }
    sum.min(1.0)
}

/// The probability that at least `least` of `hits` draws come from the second of two groups of `n` and `m`, without replacement (Fisher's
/// exact test, one-sided).
pub fn drawn_from_second((n, m): (usize, usize), hits: usize, least: usize) -> f64 {
    let choices = |of: usize, take: usize| (0..take).map(|at| ((of - at) as f64 / (at + 1) as f64).ln()).sum::<f64>();
    let all = choices(n + m, hits);
    let of_second = least.max(hits.saturating_sub(n))..=hits.min(m);
    of_second.map(|second| (choices(m, second) + choices(n, hits - second) - all).exp()).sum::<f64>().min(1.0)
}

/// Which of many p values are significant at a false discovery rate of at most `rate` (Benjamini and Hochberg).
///
/// Twenty comparisons of equals at 5 % find one difference on average. With this correction, 95 % of such tables have
/// no difference.
pub fn false_discovery(p_values: &[f64], rate: f64) -> Vec<bool> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_unstable_by(|a, b| p_values[*a].total_cmp(&p_values[*b]));
    let count = p_values.len() as f64;
    let stands = |(rank, at): &(usize, &usize)| p_values[**at] <= rate * (*rank + 1) as f64 / count;
    let kept = order.iter().enumerate().rfind(stands).map_or(0, |(rank, _)| rank + 1);
    let mut result = vec![false; p_values.len()];
    order[..kept].iter().for_each(|at| result[*at] = true);
    result
}

#[cfg(test)]
mod tests {
    use super::super::ranks::rank_test;
    use super::*;

    #[test]
    fn medians_and_quantiles() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(quantile(&[0.0, 10.0], 0.25), Some(2.5));
    }

    #[test]
    fn probabilities_are_those_of_textbooks() {
        assert!((binomial(20, 0.2, 1) - 0.069_175).abs() < 1e-6 && (binomial(4, 0.5, 9) - 1.0).abs() < 1e-12);
        assert!((binomial(2000, 0.9, 1800) - 0.52).abs() < 0.01, "{}", binomial(2000, 0.9, 1800));
        // The lady who tasted tea, and five of the 80 largest all in one half.
        assert!((drawn_from_second((4, 4), 4, 3) - 17.0 / 70.0).abs() < 1e-12);
        assert!((drawn_from_second((40, 40), 5, 5) - 0.027_371).abs() < 1e-6);
        assert!(drawn_from_second((3, 5), 0, 0) == 1.0 && (drawn_from_second((3, 5), 8, 5) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn an_interval_holds_the_median_and_follows_the_seed() {
        let values: Vec<f64> = (1..=11).map(f64::from).collect();
        let (low, high) = median_interval(&values, 1).unwrap();
        assert!(low < 6.0 && 6.0 < high && low >= 1.0 && high <= 11.0);
        assert_eq!(median_interval(&values, 1), median_interval(&values, 1));
        assert_eq!(median_interval(&[5.0], 1), Some((5.0, 5.0)));
    }

    #[test]
    fn among_equals_almost_no_difference_is_found() {
        let mut rng = Rng::new(42);
        let mut sample = || (0..10).map(|_| (rng.next() >> 11) as f64).collect::<Vec<f64>>();
        let mut tables_with_a_find = 0;
        for _ in 0..200 {
            let p: Vec<f64> = (0..28).map(|_| rank_test(&sample(), &sample()).p).collect();
            tables_with_a_find += usize::from(false_discovery(&p, 0.05).contains(&true));
        }
        assert!(tables_with_a_find <= 20, "{tables_with_a_find} of 200 tables of equals show a difference");
    }

    #[test]
    fn false_discoveries_are_bounded_step_by_step() {
        assert_eq!(false_discovery(&[0.04, 0.001, 0.9, 0.02], 0.05), [false, true, false, true]);
        assert_eq!(false_discovery(&[0.01, 0.02, 0.03, 0.04], 0.05), [true; 4]);
        assert!(false_discovery(&[], 0.05).is_empty());
    }
}
