//! The rank-sum test: which of two samples has the larger values. In: two slices. Out: the p value of the difference, and an interval for
//! the ratio. These are pure functions.
//!
//! Both use only ranks, so they assume no distribution. That of memory is skewed, and moves in steps of pages.

use std::cell::RefCell;
use std::collections::HashMap;

use super::stats::ratio;
use super::{normal, unlike};

/// Up to this many values in both samples together, p values are exact.
const EXACT: usize = 40;

/// The minimum number of values for an interval. With fewer, it would span all values and still cover less than 95 %.
pub const LEAST_SAMPLES: usize = 5;

/// The share of intervals that may miss the true ratio.
pub const MISSES: f64 = 0.05;

/// The share of intervals that may miss the true ratio in a family of `family` comparisons. With this share, at most 5 % of such families
/// have an interval that lies wrongly beyond a bound. Such an error is on one side of the ratio, and only half of the misses are on that
/// side.
pub fn misses_in(family: usize) -> f64 {
    (2.0 * MISSES / family.max(1) as f64).min(MISSES)
}

/// The result of the rank-sum test (Mann-Whitney, Wilcoxon) of two samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RankTest {
    /// The two-sided p value: the probability that values of one population, split at random, differ at least this
    /// much.
    pub p: f64,
    /// The lowest p value of all splits of these values. Ties make it larger.
    pub least: f64,
}

/// Tests two samples. The p value is over all ways to split the observed values, ties included. It is exact for up to
/// 40 values, else a normal approximation corrected for ties and continuity. It is 1 if either sample is empty.
pub fn rank_test(a: &[f64], b: &[f64]) -> RankTest {
    if a.is_empty() || b.is_empty() {
        return RankTest { p: 1.0, least: 1.0 };
    }
    // The test is symmetric, and the smaller sample is faster.
    let (a, b) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    let mut all: Vec<(f64, bool)> = a.iter().map(|v| (*v, true)).chain(b.iter().map(|v| (*v, false))).collect();
    all.sort_unstable_by(|x, y| x.0.total_cmp(&y.0));
    // Ranks are doubled, so that the mean ranks of tied values are whole numbers too.
    let mut ranks = Vec::with_capacity(all.len());
    let (mut sum, mut ties) = (0, 0.0);
    while ranks.len() < all.len() {
        let start = ranks.len();
        let end = start + all[start..].iter().take_while(|item| item.0 == all[start].0).count().max(1);
        let size = (end - start) as f64;
        ties += size * size * size - size;
        sum += all[start..end].iter().filter(|item| item.1).count() * (start + 1 + end);
        ranks.resize(end, start + 1 + end);
    }
    let mean = a.len() * (all.len() + 1);
    let lowest: usize = ranks[..a.len()].iter().sum();
    let highest: usize = ranks[b.len()..].iter().sum();
    let most = lowest.abs_diff(mean).max(highest.abs_diff(mean));
    let off = sum.abs_diff(mean);
    if all.len() <= EXACT {
        let sums = subset_sums(&ranks, a.len());
        let total: f64 = sums.iter().sum();
        let as_far = |off| {
            let far = sums.iter().enumerate().filter(|(sum, _)| sum.abs_diff(mean) >= off);
            far.map(|(_, count)| count).sum::<f64>() / total
        };
        return RankTest { p: as_far(off), least: as_far(most) };
    }
    let (n, m, total) = (a.len() as f64, b.len() as f64, all.len() as f64);
    let deviation = (n * m / 12.0 * (total + 1.0 - ties / (total * (total - 1.0)))).sqrt();
    let as_far = |off: usize| match deviation > 0.0 {
        true => (2.0 * normal::tail((off as f64 / 2.0 - 0.5).max(0.0) / deviation)).min(1.0),
        false => 1.0, // all values are equal
    };
    RankTest { p: as_far(off), least: as_far(most) }
}

/// The lowest possible p value of two samples of these sizes without ties.
pub fn least_p(n: usize, m: usize) -> f64 {
    // 2 over the binomial coefficient of n + m over n.
    (1..=n).fold(2.0, |p, k| p * k as f64 / (m + k) as f64).min(1.0)
}

/// For each sum, the number of choices of `count` ranks that have it.
fn subset_sums(ranks: &[usize], count: usize) -> Vec<f64> {
    let most: usize = ranks[ranks.len() - count..].iter().sum();
    let width = most + 1;
    let mut ways = vec![0.0_f64; (count + 1) * width];
    ways[0] = 1.0;
    for (seen, rank) in ranks.iter().enumerate() {
        for chosen in (1..=count.min(seen + 1)).rev() {
            let (before, here) = ways.split_at_mut(chosen * width);
            let before = &before[(chosen - 1) * width..];
            here[*rank..width].iter_mut().zip(before).for_each(|(here, before)| *here += before);
        }
    }
    ways.split_off(count * width)
}

/// The interval of `new / old`: every factor that the rank test does not reject for these samples. Its bounds are ratios of single pairs.
/// `misses` is the share of intervals that may miss the true ratio: [`MISSES`] for a single interval, or [`MISSES`] divided by their number
/// if the best of several is chosen. `None` if either sample has fewer than five values, or a negative one, for which a ratio has no
/// meaning.
///
/// Its coverage is `1 - misses` for samples that differ by a factor, whatever their shape, down to five values, where a bootstrap's
/// interval is too narrow. Ties make it wider than necessary, never narrower. It is wider if one sample spreads further than the other. It
/// always includes the ratio of medians: if two shapes differ, that ratio may lie outside the interval of the ranks alone. `None` also if
/// there are so few values that even the range of all pairs misses more often.
pub fn ratio_interval(old: &[f64], new: &[f64], misses: f64) -> Option<(f64, f64)> {
    let Ranked { old, new, outside } = Ranked::of(old, new, misses)?;
    let last = old.len() * new.len() - 1;
    let (low, high) = (nth_ratio(&old, &new, outside), nth_ratio(&old, &new, last - outside));
    let middle = ratio(super::stats::quantile(&new, 0.5)?, super::stats::quantile(&old, 0.5)?);
    Some((low.min(middle), high.max(middle)))
}

/// The interval of `old - new`. Its bounds are differences of single pairs. As many pairs lie outside of it as outside of
/// [`ratio_interval`], so both agree which sample is larger. It always includes the difference of the medians. It sorts all pairs, so it is
/// for samples of tens of values.
pub fn difference_interval(old: &[f64], new: &[f64], misses: f64) -> Option<(f64, f64)> {
    let Ranked { old, new, outside } = Ranked::of(old, new, misses)?;
    let pairs: Vec<f64> = old.iter().flat_map(|old| new.iter().map(move |new| old - new)).collect();
    let pairs = in_order(&pairs);
    let middle = super::stats::quantile(&old, 0.5)? - super::stats::quantile(&new, 0.5)?;
    Some((pairs[outside].min(middle), pairs[pairs.len() - 1 - outside].max(middle)))
}

/// Two sorted samples, and how many of their pairs lie below an interval. As many lie above it.
struct Ranked {
    old: Vec<f64>,
    new: Vec<f64>,
    outside: usize,
}

impl Ranked {
    /// `None` if there is no interval.
    fn of(old: &[f64], new: &[f64], misses: f64) -> Option<Ranked> {
        if old.len() < LEAST_SAMPLES || new.len() < LEAST_SAMPLES || old.iter().chain(new).any(|value| *value < 0.0) {
            return None;
        }
        let (old, new) = (in_order(old), in_order(new));
        let outside =
            pairs_outside(old.len(), new.len(), misses / 2.0)?.min(unlike::pairs_outside(&old, &new, misses / 2.0));
        Some(Ranked { old, new, outside })
    }
}

/// The ratio `new / old` of the pair that has `below` smaller ratios before it. Both samples are sorted and not negative.
///
/// It halves the range of all numbers, and counts the pairs below each middle. Thousands of values have too many pairs to compute and
/// select from: that was a quarter of a large report's time.
fn nth_ratio(old: &[f64], new: &[f64], below: usize) -> f64 {
    // Numbers that are not negative have the same order as their bits.
    let (mut low, mut high) = (0, f64::INFINITY.to_bits());
    while low < high {
        let middle = low + (high - low) / 2;
        if pairs_up_to(old, new, f64::from_bits(middle)) > below { high = middle } else { low = middle + 1 }
    }
    f64::from_bits(low)
}

/// The number of pairs whose ratio is at most `limit`. A ratio grows with `new` and falls with `old`.
fn pairs_up_to(old: &[f64], new: &[f64], limit: f64) -> usize {
    let mut within = 0;
    let up_to = |old: &f64| {
        within += new[within..].iter().take_while(|new| ratio(**new, *old) <= limit).count();
        within
    };
    old.iter().map(up_to).sum()
}

/// The values, sorted.
pub fn in_order(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

/// The number of pair ratios below the interval's lower bound, and also above its upper bound: the greatest U of the
/// rank test whose tail has at most this share of all splits. `None` if no U has so small a tail.
fn pairs_outside(n: usize, m: usize, tail: f64) -> Option<usize> {
    thread_local! {
        static KNOWN: RefCell<HashMap<(usize, usize, u64), Option<usize>>> = RefCell::default();
    }
    let (n, m) = (n.min(m), n.max(m));
    let count = || {
        if n + m > EXACT {
            let (n, m) = (n as f64, m as f64);
            let off = normal::quantile(tail) * (n * m * (n + m + 1.0) / 12.0).sqrt();
            return Some((n * m / 2.0 - off - 1.0).floor().max(0.0) as usize);
        }
        let ranks: Vec<usize> = (1..=n + m).collect();
        let sums = subset_sums(&ranks, n);
        let total: f64 = sums.iter().sum();
        let lowest = n * (n + 1) / 2;
        let mut below = 0.0;
        let within = |ways: &&f64| {
            below += **ways / total;
            below <= tail
        };
        // The greatest U that the test still calls a difference.
        sums[lowest..].iter().take_while(within).count().checked_sub(1)
    };
    KNOWN.with_borrow_mut(|known| *known.entry((n, m, tail.to_bits())).or_insert_with(count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use allocanary_sys::rng::Rng;

    fn close(found: f64, wanted: f64, within: f64) {
        assert!((found - wanted).abs() < within, "found {found}, wanted {wanted}");
    }

    fn p(a: &[f64], b: &[f64]) -> f64 {
        rank_test(a, b).p
    }

    /// The same values as R's `wilcox.test`, without ties.
    #[test]
    fn without_ties_it_is_the_textbooks_test() {
        let low = [1.0, 2.0, 3.0, 4.0, 5.0];
        let high = [6.0, 7.0, 8.0, 9.0, 10.0];
        close(p(&low, &high), 2.0 / 252.0, 1e-12);
        close(p(&high, &low), 2.0 / 252.0, 1e-12);
        // U = 5, and 15 of the 35 orders of four and three have at most that.
        close(p(&[1.1, 2.2, 3.3, 4.4], &[2.0, 3.0, 5.0]), 30.0 / 35.0, 1e-12);
        close(least_p(5, 5), 2.0 / 252.0, 1e-12);
        close(least_p(4, 3), 2.0 / 35.0, 1e-12);
        close(rank_test(&low, &high).least, least_p(5, 5), 1e-12);
        assert_eq!(least_p(0, 9), 1.0);
        assert_eq!(rank_test(&[], &[1.0]), RankTest { p: 1.0, least: 1.0 });
        assert_eq!(rank_test(&[1.0, 1.0], &[1.0, 1.0]), RankTest { p: 1.0, least: 1.0 });
    }

    /// Every split of the values, one by one: the expected result of the counts.
    fn by_hand(a: &[f64], b: &[f64]) -> RankTest {
        let all = [a, b].concat();
        let rank = |value: &f64| {
            let below = all.iter().filter(|other| *other < value).count();
            let same = all.iter().filter(|other| *other == value).count();
            below as f64 + (same as f64 + 1.0) / 2.0
        };
        let ranks: Vec<f64> = all.iter().map(rank).collect();
        let mean = a.len() as f64 * (all.len() as f64 + 1.0) / 2.0;
        let off = |mask: u32| {
            let chosen = (0..all.len()).filter(|at| mask >> at & 1 == 1);
            (chosen.map(|at| ranks[at]).sum::<f64>() - mean).abs()
        };
        let deals: Vec<u32> = (0..1 << all.len()).filter(|mask: &u32| mask.count_ones() == a.len() as u32).collect();
        let most = deals.iter().map(|mask| off(*mask)).fold(0.0, f64::max);
        let share =
            |least: f64| deals.iter().filter(|mask| off(**mask) >= least - 1e-9).count() as f64 / deals.len() as f64;
        RankTest { p: share(off((1 << a.len()) - 1)), least: share(most) }
    }

    #[test]
    fn with_ties_it_counts_the_deals_of_the_values_that_were_seen() {
        let mut rng = Rng::new(7);
        for _ in 0..200 {
            let (n, m, kinds) = (1 + rng.below(6), 1 + rng.below(6), 1 + rng.below(6));
            let mut draw = |count| (0..count).map(|_| rng.below(kinds) as f64).collect::<Vec<f64>>();
            let (a, b) = (draw(n), draw(m));
            let (found, wanted) = (rank_test(&a, &b), by_hand(&a, &b));
            close(found.p, wanted.p, 1e-12);
            close(found.least, wanted.least, 1e-12);
        }
    }

    #[test]
    fn eight_times_as_much_is_seen_in_spite_of_a_tie() {
        let old = [10.0, 10.0, 11.0, 12.0, 13.0];
        let new = old.map(|value| value * 8.0);
        close(p(&old, &new), 2.0 / 252.0, 1e-12);
        // Two values, three times each: 2 of 20 splits separate them. With one odd value, 10 of 20 differ as much.
        close(rank_test(&[1.0, 1.0, 1.0], &[2.0, 2.0, 2.0]).least, 2.0 / 20.0, 1e-12);
        close(rank_test(&[1.0, 1.0, 1.0], &[1.0, 1.0, 2.0]).least, 1.0, 1e-12);
    }

    #[test]
    fn large_samples_are_close_to_exact() {
        let (a, b): (Vec<f64>, Vec<f64>) =
            ((0..20).map(|at| f64::from(at % 13)).collect(), (0..20).map(|at| f64::from(at % 13 + 3)).collect());
        let exact = p(&a, &b);
        // One more value than the exact count allows.
        let more = p(&a, &[&b[..], &[9.0]].concat());
        assert!((0.3..3.0).contains(&(more / exact)), "{exact} and {more}");
        assert_eq!(rank_test(&[1.0; 30], &[1.0; 30]), RankTest { p: 1.0, least: 1.0 });
    }

    #[test]
    fn a_ratio_is_found_as_if_all_pairs_were_sorted() {
        let mut rng = Rng::new(11);
        for _ in 0..200 {
            let kinds = 1 + rng.below(12);
            let mut draw = |count| in_order(&(0..count).map(|_| rng.below(kinds) as f64 / 7.0).collect::<Vec<f64>>());
            let (old, new) = (draw(1 + kinds), draw(9));
            let mut pairs: Vec<f64> = old.iter().flat_map(|old| new.iter().map(|new| ratio(*new, *old))).collect();
            pairs.sort_unstable_by(f64::total_cmp);
            let found: Vec<f64> = (0..pairs.len()).map(|below| nth_ratio(&old, &new, below)).collect();
            assert_eq!(found, pairs, "{old:?} {new:?}");
        }
    }

    #[test]
    fn an_interval_is_that_of_the_exact_test() {
        let old = [1.0, 1.1, 1.2, 1.3, 1.4];
        let new = old.map(|value| value * 2.0);
        // The critical values of textbook tables, two-sided, 5 % and 1 %.
        let critical = |tail| [(5, 5), (5, 10), (10, 10), (20, 20)].map(|(n, m)| pairs_outside(n, m, tail).unwrap());
        assert_eq!((critical(0.025), critical(0.005)), ([2, 8, 23, 127], [0, 4, 16, 105]));
        // One of 252 splits has no pair in another order.
        assert_eq!((pairs_outside(5, 5, 1.0 / 253.0), pairs_outside(5, 5, 1.0 / 251.0)), (None, Some(0)));
        let many = pairs_outside(100, 75, 0.025).unwrap();
        assert!((3090..3105).contains(&many), "{many}");
        let (low, high) = ratio_interval(&old, &new, MISSES).unwrap();
        assert!(low < 2.0 && 2.0 < high && low > 1.0, "{low} {high}");
        assert_eq!(ratio_interval(&old[..4], &new, MISSES), None);
        assert_eq!(ratio_interval(&[-1.0, 1.0, 1.0, 1.0, 1.0], &new, MISSES), None);
        assert_eq!(ratio_interval(&[0.0; 5], &[0.0; 5], MISSES), Some((1.0, 1.0)));
        assert_eq!(ratio_interval(&[3.0; 5], &[6.0; 2000], MISSES), Some((2.0, 2.0)));
        assert_eq!(difference_interval(&[50.0, 60.0, 70.0, 80.0, 90.0], &[1.0; 5], MISSES), Some((49.0, 89.0)));
        // Two of 25 pairs lie outside at each end.
        let saved = difference_interval(&[9.0, 7.0, 11.0, 10.0, 8.0], &[6.0, 7.0, 5.0, 8.0, 9.0], MISSES);
        assert_eq!(saved, Some((-1.0, 5.0)), "the pairs are -2, -1, -1, 0, ... 5, 5, 6");
        assert_eq!(difference_interval(&old[..4], &new, MISSES), None);
    }
}
