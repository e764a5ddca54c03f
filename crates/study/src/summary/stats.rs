//! Numbers about numbers. In: slices. Out: medians, intervals, the odds that two samples are alike. Pure.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use allocanary_kernel::rng::Rng;

/// The middle of `values`, or the mean of the two in the middle; none where there are none.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    quantile(&sorted, 0.5)
}

/// The quantile `q` of values in order, interpolated between neighbours.
pub fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let at = q.clamp(0.0, 1.0) * last as f64;
    let (low, high) = (at.floor() as usize, at.ceil() as usize);
    Some(sorted[low] + (sorted[high] - sorted[low]) * (at - low as f64))
}

/// How many times the bootstrap draws. More changes the bounds by less than the samples' own spread.
const DRAWS: usize = 1000;

/// The 95 % bootstrap interval of the median: medians of samples drawn from `sorted` with replacement (percentile
/// method). With one value it is that value: an interval says nothing then, and `n` beside it says why.
pub fn median_interval(sorted: &[f64], seed: u64) -> Option<(f64, f64)> {
    if sorted.is_empty() {
        return None;
    }
    bounds(middles(sorted.len(), seed).iter().map(|middle| middle.of(sorted)).collect())
}

/// The 95 % bootstrap interval of the ratio of medians `new / old`.
pub fn ratio_interval(old: &[f64], new: &[f64], seed: u64) -> Option<(f64, f64)> {
    if old.is_empty() || new.is_empty() {
        return None;
    }
    let in_order = |values: &[f64]| {
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        sorted
    };
    let (old, new) = (in_order(old), in_order(new));
    let (olds, news) = (middles(old.len(), seed), middles(new.len(), seed));
    // The draws are in order: shuffled, the one sample's have nothing to do with the other's.
    let mut shuffled: Vec<usize> = (0..DRAWS).collect();
    Rng::new(seed).shuffle(&mut shuffled);
    bounds(olds.iter().zip(shuffled).map(|(at_old, at_new)| news[at_new].of(&new) / at_old.of(&old)).collect())
}

/// Where in a sample in order the median of one draw from it stands: the same place twice, or two in the middle.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Middle(u32, u32);

type DrawnBySizeAndSeed = HashMap<(usize, u64), Rc<[Middle]>>;

impl Middle {
    fn of(self, sorted: &[f64]) -> f64 {
        let (low, high) = (sorted[self.0 as usize], sorted[self.1 as usize]);
        low + (high - low) / 2.0
    }
}

/// The medians of all draws from a sample of `count` values, in order. Which places are drawn depends on nothing but the
/// sample's size, so a report with thousands of groups draws once for each size that occurs.
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

/// The bounds between which 95 % of the draws lie. Does not sort: this is most of a large report's work.
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

/// The two-sided p value of the Mann-Whitney test: how likely two samples from one population are to lie as far apart
/// as these do. It asks nothing of the distribution, and memory's is skewed. 1 where either is empty.
///
/// Exact (by counting orders) up to 40 values without ties, else by the normal approximation with ties and
/// continuity corrected.
pub fn mann_whitney(a: &[f64], b: &[f64]) -> f64 {
    if a.is_empty() || b.is_empty() {
        return 1.0;
    }
    let mut all: Vec<(f64, bool)> = a.iter().map(|v| (*v, true)).chain(b.iter().map(|v| (*v, false))).collect();
    all.sort_unstable_by(|x, y| x.0.total_cmp(&y.0));
    let (mut rank_sum, mut ties, mut start) = (0.0, 0.0, 0);
    while start < all.len() {
        let end = start + all[start..].iter().take_while(|item| item.0 == all[start].0).count();
        let size = (end - start) as f64;
        let rank = (start + 1 + end) as f64 / 2.0;
        rank_sum += rank * all[start..end].iter().filter(|item| item.1).count() as f64;
        ties += size * size * size - size;
        start = end;
    }
    let (n, m) = (a.len() as f64, b.len() as f64);
    let u = rank_sum - n * (n + 1.0) / 2.0;
    let u = u.min(n * m - u);
    if ties == 0.0 && all.len() <= 40 {
        return (2.0 * exact_tail(a.len(), b.len(), u as usize)).min(1.0);
    }
    let total = n + m;
    let variance = n * m / 12.0 * (total + 1.0 - ties / (total * (total - 1.0)));
    if variance <= 0.0 {
        return 1.0; // all values are equal
    }
    let z = ((n * m / 2.0 - u - 0.5).max(0.0)) / variance.sqrt();
    (2.0 * normal_tail(z)).min(1.0)
}

/// The least p value that [`mann_whitney`] can give for samples of these sizes: that of two that do not overlap.
pub fn least_p(n: usize, m: usize) -> f64 {
    // 2 over the binomial coefficient of n + m over n.
    (1..=n).fold(2.0, |p, k| p * k as f64 / (m + k) as f64).min(1.0)
}

/// The share of all orders of `n` and `m` values whose U is at most `u`.
fn exact_tail(n: usize, m: usize, u: usize) -> f64 {
    // counts[j][k]: orders of i values of one sample among j of the other with U = k, for growing i.
    let most = n * m;
    let mut counts = vec![vec![0.0_f64; most + 1]; m + 1];
    counts.iter_mut().for_each(|row| row[0] = 1.0);
    for _ in 0..n {
        let before = counts;
        counts = vec![vec![0.0; most + 1]; m + 1];
        counts[0][0] = 1.0;
        for j in 1..=m {
            for k in 0..=most {
                // The greatest value is the other sample's (k stays), or ours (it stands above j others).
                let theirs = counts[j - 1][k];
                let ours = if k >= j { before[j][k - j] } else { 0.0 };
                counts[j][k] = theirs + ours;
            }
        }
    }
    let all: f64 = counts[m].iter().sum();
    counts[m][..=u.min(most)].iter().sum::<f64>() / all
}

/// P(Z > z) for z >= 0, by Abramowitz and Stegun 26.2.17; the error is below 1e-7.
fn normal_tail(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z);
    let terms = [0.319_381_530, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    let sum = terms.iter().rev().fold(0.0, |sum, term| (sum + term) * t);
    (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt() * sum
}

/// Which of many p values stand when no more than `rate` of those that stand may be false (Benjamini and Hochberg).
///
/// Twenty comparisons at 5 % find one difference among equals; this keeps a table of equals empty, at 95 %.
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
    use super::*;

    #[test]
    fn medians_and_quantiles() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(quantile(&[0.0, 10.0], 0.25), Some(2.5));
    }

    #[test]
    fn an_interval_holds_the_median_and_follows_the_seed() {
        let values: Vec<f64> = (1..=11).map(f64::from).collect();
        let (low, high) = median_interval(&values, 1).unwrap();
        assert!(low < 6.0 && 6.0 < high && low >= 1.0 && high <= 11.0);
        assert_eq!(median_interval(&values, 1), median_interval(&values, 1));
        assert_eq!(median_interval(&[5.0], 1), Some((5.0, 5.0)));
        let doubled: Vec<f64> = values.iter().map(|value| value * 2.0).collect();
        let (low, high) = ratio_interval(&values, &doubled, 1).unwrap();
        assert!(low < 2.0 && 2.0 < high);
    }

    /// As R's `wilcox.test` does it: exact where no values are tied, else normal with continuity and ties corrected.
    #[test]
    fn mann_whitney_is_that_of_the_textbooks() {
        let close = |found: f64, wanted: f64, within: f64| {
            assert!((found - wanted).abs() < within, "found {found}, wanted {wanted}");
        };
        let low = [1.0, 2.0, 3.0, 4.0, 5.0];
        let high = [6.0, 7.0, 8.0, 9.0, 10.0];
        close(mann_whitney(&low, &high), 2.0 / 252.0, 1e-12);
        close(mann_whitney(&high, &low), 2.0 / 252.0, 1e-12);
        // U = 5, and 15 of the 35 orders of four and three have at most that.
        close(mann_whitney(&[1.1, 2.2, 3.3, 4.4], &[2.0, 3.0, 5.0]), 30.0 / 35.0, 1e-12);
        // Ties: U = 2.5, sizes 3 and 2 tied, so z = (8 - 2.5 - 0.5) / sqrt(16 / 12 * (9 - 30 / 56)) = 1.4884.
        close(mann_whitney(&[1.0, 2.0, 2.0, 3.0], &[2.0, 3.0, 4.0, 5.0]), 0.13665, 1e-4);
        close(least_p(5, 5), 2.0 / 252.0, 1e-12);
        close(least_p(4, 3), 2.0 / 35.0, 1e-12);
        assert_eq!(least_p(0, 9), 1.0);
        assert_eq!(mann_whitney(&[1.0, 1.0], &[1.0, 1.0]), 1.0);
        assert_eq!(mann_whitney(&[], &[1.0]), 1.0);
    }

    #[test]
    fn among_equals_almost_no_difference_is_found() {
        let mut rng = Rng::new(42);
        let mut sample = || (0..10).map(|_| (rng.next() >> 11) as f64).collect::<Vec<f64>>();
        let mut tables_with_a_find = 0;
        for _ in 0..200 {
            let p: Vec<f64> = (0..28).map(|_| mann_whitney(&sample(), &sample())).collect();
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
