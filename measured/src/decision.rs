//! Decides a check. In: pairs of readings, in their order, and the limit of the ratio. Out: works, broken, or undecided. Pure.
//!
//! The rank test is exact and assumes no distribution. Each look at the pairs is a chance to be wrong, so each look has its share
//! of [`ALPHA`].

use allocanary_measure::summary::ratio_interval;

/// If the true ratio is the limit itself, at most this share of checks may be decided. If it is not, the share of wrong
/// decisions is smaller.
pub const ALPHA: f64 = 1e-4;

/// The numbers of pairs after which a check is judged. With fewer than ten pairs even the clearest result is too likely by
/// chance for a fifth of [`ALPHA`]. Up to twenty pairs the test is exact.
pub const LOOKS: [usize; 5] = [10, 12, 14, 17, 20];

/// The most pairs of a check.
pub const MOST: usize = LOOKS[LOOKS.len() - 1];

/// Two readings that were taken one after the other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// The reading that is checked.
    pub checked: f64,
    /// The reading with which it is compared.
    pub control: f64,
}

/// What the pairs show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The ratio of the readings is below the limit.
    Works,
    /// It is above the limit.
    Broken,
    /// Neither is certain.
    Undecided,
}

/// Judges the pairs so far by the ratio `checked / control`; undecided between two looks.
pub fn decide(pairs: &[Pair], limit: f64) -> Decision {
    if !LOOKS.contains(&pairs.len()) {
        return Decision::Undecided;
    }
    match interval(pairs, ALPHA / LOOKS.len() as f64) {
        Some((_, high)) if high < limit => Decision::Works,
        Some((low, _)) if low > limit => Decision::Broken,
        _ => Decision::Undecided,
    }
}

/// The interval of the ratio; `misses` is the share of intervals that may miss it.
fn interval(pairs: &[Pair], misses: f64) -> Option<(f64, f64)> {
    let of = |reading: fn(&Pair) -> f64| pairs.iter().map(reading).collect::<Vec<f64>>();
    ratio_interval(&of(|pair| pair.control), &of(|pair| pair.checked), misses)
}

/// The ratio of the medians.
pub fn ratio(pairs: &[Pair]) -> f64 {
    let median = |reading: fn(&Pair) -> f64| {
        let mut values: Vec<f64> = pairs.iter().map(reading).collect();
        values.sort_unstable_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
    };
    median(|pair| pair.checked) / median(|pair| pair.control)
}

#[cfg(test)]
mod tests {
    use super::*;
    use allocanary_sys::rng::Rng;

    /// A reading between `base` and twice `base`, with the skew of memory readings.
    fn reading(rng: &mut Rng, base: f64) -> f64 {
        let share = rng.below(1_000_000) as f64 / 1e6;
        base * (1.0 + share * share)
    }

    /// Takes pairs of a true ratio until a check with the limit 0.5 is decided. The decision and the number of pairs.
    fn simulated(rng: &mut Rng, truth: f64) -> (Decision, usize) {
        let mut pairs = Vec::new();
        while pairs.len() < MOST {
            pairs.push(Pair { checked: reading(rng, truth * 100.0), control: reading(rng, 100.0) });
            let decision = decide(&pairs, 0.5);
            if decision != Decision::Undecided {
                return (decision, pairs.len());
            }
        }
        (Decision::Undecided, MOST)
    }

    #[test]
    fn a_clear_result_is_decided_at_the_first_look() {
        let mut rng = Rng::new(1);
        for _ in 0..100 {
            assert_eq!(simulated(&mut rng, 0.2), (Decision::Works, LOOKS[0]));
            assert_eq!(simulated(&mut rng, 1.2), (Decision::Broken, LOOKS[0]));
        }
    }

    #[test]
    fn a_result_that_is_less_clear_needs_more_pairs_and_is_not_decided_wrongly() {
        let mut rng = Rng::new(2);
        let found: Vec<_> = (0..300).map(|_| simulated(&mut rng, 0.35)).collect();
        assert!(found.iter().all(|(decision, _)| *decision != Decision::Broken));
        let late = found.iter().filter(|(decision, pairs)| *decision == Decision::Works && *pairs > LOOKS[0]).count();
        assert!(late > 30, "{late} of 300 were decided by more than the least number of pairs");
    }

    #[test]
    fn at_the_limit_nothing_is_decided() {
        let mut rng = Rng::new(3);
        let decided = (0..3000).filter(|_| simulated(&mut rng, 0.5).0 != Decision::Undecided).count();
        // At most 0.3 are expected.
        assert!(decided <= 3, "{decided} of 3000");
        // The same pairs with 5 % at each look: the result if alpha were not divided among the looks.
        let share = (0..3000).filter(|_| {
            let mut pairs = Vec::new();
            (0..MOST).any(|_| {
                pairs.push(Pair { checked: reading(&mut rng, 50.0), control: reading(&mut rng, 100.0) });
                let looks = LOOKS.contains(&pairs.len());
                looks && interval(&pairs, 0.05).is_some_and(|(low, high)| high < 0.5 || low > 0.5)
            })
        });
        let share = share.count();
        assert!((150..600).contains(&share), "{share} of 3000 at 5 % for each look");
    }

    #[test]
    fn the_smallest_look_can_be_decided_and_none_is_judged_between_looks() {
        // 2 over the number of ways to choose n of 2n: the least p value of n pairs.
        let least = |n: usize| (1..=n).fold(2.0, |p, k| p * k as f64 / (n + k) as f64);
        let share = ALPHA / LOOKS.len() as f64;
        assert!(least(LOOKS[0]) <= share && least(LOOKS[0] - 1) > share);
        let clear = |count| vec![Pair { checked: 1.0, control: 100.0 }; count];
        let judged: Vec<usize> = (0..30).filter(|count| decide(&clear(*count), 0.5) == Decision::Works).collect();
        assert_eq!(judged, LOOKS);
    }

    #[test]
    fn a_ratio_is_that_of_the_medians() {
        let pairs = [(1.0, 10.0), (2.0, 40.0), (9.0, 20.0)].map(|(checked, control)| Pair { checked, control });
        assert_eq!(ratio(&pairs), 0.1);
    }
}
