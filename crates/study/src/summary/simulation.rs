//! How often verdicts are wrong: thousands of random pairs of samples with a known ratio, distributed like resident
//! memory.

use super::fold::Group;
use super::gate::{Gate, Judged};
use super::metric_of_all;
use super::verdict::{MARGIN, Verdict, compare_groups};
use allocanary_kernel::rng::Rng;

/// A distribution of resident memory.
#[derive(Clone, Copy, Debug)]
struct Distribution {
    /// The mean of the part above the minimum, as a share of the minimum: a tail to the right.
    tail: f64,
    /// Values are multiples of this share of the minimum, so that many are tied: pages, huge pages, whole arenas.
    step: f64,
}

const DISTRIBUTIONS: [Distribution; 6] = [
    Distribution { tail: 0.005, step: 0.0002 },
    Distribution { tail: 0.02, step: 0.0002 },
    Distribution { tail: 0.02, step: 0.01 },
    Distribution { tail: 0.1, step: 0.0002 },
    Distribution { tail: 0.1, step: 0.05 },
    Distribution { tail: 0.5, step: 0.01 },
];

impl Distribution {
    fn sample(self, count: usize, times: f64, rng: &mut Rng) -> Vec<f64> {
        let one = || {
            let uniform = ((rng.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
            let value = times * (1.0 - self.tail * uniform.ln());
            (value / self.step).round() * self.step
        };
        std::iter::repeat_with(one).take(count).collect()
    }
}

/// Pairs of groups of `n` samples, the second with medians `times` those of the first.
fn random_pairs(shape: Distribution, n: usize, times: f64, pairs: usize) -> impl Iterator<Item = (Group, Group)> {
    let seed = (shape.tail * 1e6 + shape.step * 1e4 + times * 1e3) as u64 + n as u64;
    let mut rng = Rng::part(2018, seed);
    let mut group = move |times: f64| {
        let values = [("rss".into(), shape.sample(n, times, &mut rng))];
        Group { values: values.into(), ..Group::default() }
    };
    std::iter::repeat_with(move || (group(1.0), group(times))).take(pairs)
}

/// The number of verdicts (better, worse, equal) over `pairs` random pairs with the true ratio `times`.
fn verdicts(shape: Distribution, n: usize, times: f64, pairs: usize) -> [usize; 3] {
    let mut counts = [0; 3];
    for (old, new) in random_pairs(shape, n, times, pairs) {
        let found = compare_groups([(&old, &new)].into_iter(), metric_of_all("rss"), MARGIN)[0];
        match found.verdict {
            Verdict::Better => counts[0] += 1,
            Verdict::Worse => counts[1] += 1,
            Verdict::Equal => counts[2] += 1,
            Verdict::Different | Verdict::Undecided => {}
        }
    }
    counts
}

const FIVE_PERCENT: f64 = 0.05;

#[test]
fn verdicts_are_false_in_at_most_five_percent_and_ten_percent_more_are_seen() {
    const PAIRS: usize = 1500;
    let share = |count: usize| count as f64 / PAIRS as f64;
    // The minimum share of pairs 10 % apart that are called worse, by shape, with five and with ten samples.
    let power = [[0.99, 0.99], [0.95, 0.99], [0.95, 0.99], [0.30, 0.70], [0.20, 0.48], [0.03, 0.08]];
    for (shape, power) in DISTRIBUTIONS.into_iter().zip(power) {
        for (n, power) in [5, 10].into_iter().zip(power) {
            let [better, worse, _] = verdicts(shape, n, 1.0, PAIRS);
            assert!(share(better + worse) <= FIVE_PERCENT, "{shape:?}, {n}: {better} better, {worse} worse");
            let [better, worse, equal] = verdicts(shape, n, 1.1, PAIRS);
            assert!(share(equal) <= FIVE_PERCENT, "{shape:?}, {n}: {equal} called equal");
            assert!(share(better) <= FIVE_PERCENT, "{shape:?}, {n}: {better} called better");
            assert!(share(worse) >= power, "{shape:?}, {n}: {worse} called worse");
        }
    }
}

/// The hardest case for "equal": a ratio just outside the margin.
#[test]
fn what_lies_just_outside_the_margin_is_seldom_called_equal() {
    const PAIRS: usize = 2000;
    for shape in &DISTRIBUTIONS[..2] {
        for n in [5, 10, 20] {
            let [_, _, equal] = verdicts(*shape, n, 1.0 + MARGIN + 0.0005, PAIRS);
            assert!(equal as f64 / PAIRS as f64 <= FIVE_PERCENT, "{shape:?}, {n}: {equal} called equal");
        }
    }
}

/// How often a gate of 5 % holds, is broken and stays open, over `pairs` random pairs with the true ratio `times`.
fn gates(shape: Distribution, n: usize, times: f64, pairs: usize) -> [usize; 3] {
    let gate = Gate::new(metric_of_all("rss"), 0.05).unwrap();
    let mut counts = [0; 3];
    for (old, new) in random_pairs(shape, n, times, pairs) {
        let found = compare_groups([(&old, &new)].into_iter(), &gate.metric, gate.most)[0];
        counts[match gate.judge(&found) {
            Judged::Holds => 0,
            Judged::Broken => 1,
            Judged::Undecided => 2,
        }] += 1;
    }
    counts
}

/// What surely grew by less must not break a gate, what surely grew by more must not pass it, and what grew by twice as much
/// as the gate is seen.
#[test]
fn a_gate_of_five_percent_is_wrong_in_at_most_five_percent() {
    const PAIRS: usize = 1000;
    let share = |count: usize| count as f64 / PAIRS as f64;
    for shape in DISTRIBUTIONS {
        for n in [5, 10, 20, 40] {
            for times in [1.0, 1.03] {
                let [_, broken, _] = gates(shape, n, times, PAIRS);
                assert!(share(broken) <= FIVE_PERCENT, "{shape:?}, {n}, {times}: {broken} broken");
            }
            let [holds, broken, _] = gates(shape, n, 1.1, PAIRS);
            assert!(share(holds) <= FIVE_PERCENT, "{shape:?}, {n}: {holds} hold at 1.1");
            let spread = shape.tail + shape.step;
            assert!(spread > 0.021 || n < 10 || share(broken) >= 0.8, "{shape:?}, {n}: {broken} broken at 1.1");
        }
    }
}
