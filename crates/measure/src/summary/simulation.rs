//! How often verdicts are wrong: thousands of random pairs of samples with a known ratio, distributed like resident
//! memory.

use super::fold::CellRepeats;
use super::gate::{Judged, MetricLimit};
use super::verdict::{MARGIN, Verdict, compare_groups, with_family_interval};
use crate::metrics::{Metrics, metric_of_all};
use allocanary_sys::rng::Rng;

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
            let value = times * (1.0 - self.tail * uniform(rng).ln());
            (value / self.step).round() * self.step
        };
        std::iter::repeat_with(one).take(count).collect()
    }
}

/// Pairs of groups of `n` samples, the second with medians `times` those of the first.
fn random_pairs(
    shape: Distribution,
    n: usize,
    times: f64,
    pairs: usize,
) -> impl Iterator<Item = (CellRepeats, CellRepeats)> {
    let seed = (shape.tail * 1e6 + shape.step * 1e4 + times * 1e3) as u64 + n as u64;
    let mut rng = Rng::part(2018, seed);
    let mut group = move |times: f64| {
        let values = [("resident".into(), shape.sample(n, times, &mut rng))];
        CellRepeats { values: values.into(), ..CellRepeats::default() }
    };
    std::iter::repeat_with(move || (group(1.0), group(times))).take(pairs)
}

/// The number of verdicts (better, worse, equal) over `pairs` random pairs with the true ratio `times`.
fn verdicts(shape: Distribution, n: usize, times: f64, pairs: usize) -> [usize; 3] {
    let mut counts = [0; 3];
    for (old, new) in random_pairs(shape, n, times, pairs) {
        let found = compare_groups([(&old, &new)].into_iter(), metric_of_all("resident"), MARGIN)[0];
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
    let gate = MetricLimit::new(&Metrics::default(), "resident", 0.05).unwrap();
    let mut counts = [0; 3];
    for (old, new) in random_pairs(shape, n, times, pairs) {
        let found = compare_groups([(&old, &new)].into_iter(), &gate.metric, gate.most)[0];
        let found = with_family_interval(found, &old, &new, &gate.metric);
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

/// Two groups that differ otherwise than by a factor, or are one of many.
#[derive(Clone, Copy, Debug)]
enum Shape {
    /// One shape on both sides.
    Same(f64),
    /// A fifth of the new runs takes this many times as much.
    Spikes(f64),
    /// Equal medians, with the spread of the old group and that of the new one.
    Unlike(f64, f64),
}

impl Shape {
    /// An old and a new group, the new one's median `times` the old one's. Values are lognormal.
    fn pair(self, (n, m): (usize, usize), times: f64, rng: &mut Rng) -> (CellRepeats, CellRepeats) {
        let (old, new, spike) = match self {
            Shape::Same(spread) => (spread, spread, 1.0),
            Shape::Spikes(spike) => (0.02, 0.02, spike),
            Shape::Unlike(old, new) => (old, new, 1.0),
        };
        let mut group = |count, spread: f64, spike: f64, times: f64| {
            let one = |_| {
                let value = times * (spread * normal(rng)).exp();
                if uniform(rng) < 0.2 { value * spike } else { value }
            };
            let values = [("resident".into(), (0..count).map(one).collect())];
            CellRepeats { values: values.into(), ..CellRepeats::default() }
        };
        (group(n, old, 1.0, 1.0), group(m, new, spike, times))
    }
}

/// From 0, which is left out, to 1.
fn uniform(rng: &mut Rng) -> f64 {
    ((rng.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64
}

/// A draw of the normal distribution (Box and Muller).
fn normal(rng: &mut Rng) -> f64 {
    (-2.0 * uniform(rng).ln()).sqrt() * (2.0 * std::f64::consts::PI * uniform(rng)).cos()
}

/// What is said of many drawn families, as shares of the comparisons, in percent; the last one of the families.
#[derive(Default)]
struct Said {
    better_or_worse: f64,
    equal: f64,
    spikes: f64,
    holds: f64,
    broken: f64,
    /// Families in which the gate of 5 % is broken.
    families_broken: f64,
}

const SIZES: [usize; 4] = [5, 10, 20, 40];

fn said(shape: Shape, sizes: (usize, usize), times: f64, family: usize) -> Said {
    let families = 2000 / family;
    let mut rng = Rng::part(2018, sizes.0 as u64 * 1000 + sizes.1 as u64 + (times * 1e6) as u64 + family as u64);
    let gate = MetricLimit::new(&Metrics::default(), "resident", 0.05).unwrap();
    let mut said = Said::default();
    for _ in 0..families {
        let pairs: Vec<(CellRepeats, CellRepeats)> = (0..family).map(|_| shape.pair(sizes, times, &mut rng)).collect();
        let all = || pairs.iter().map(|(old, new)| (old, new));
        let found = compare_groups(all(), &gate.metric, MARGIN);
        let gated = found.iter().zip(all()).map(|(one, (old, new))| with_family_interval(*one, old, new, &gate.metric));
        let judged: Vec<Judged> = gated.map(|one| gate.judge(&one)).collect();
        let one = 100.0 / (families * family) as f64;
        for (found, judged) in found.iter().zip(&judged) {
            said.better_or_worse += f64::from(matches!(found.verdict, Verdict::Better | Verdict::Worse)) * one;
            said.equal += f64::from(found.verdict == Verdict::Equal) * one;
            said.spikes += f64::from(found.spikes().is_some()) * one;
            said.holds += f64::from(*judged == Judged::Holds) * one;
            said.broken += f64::from(*judged == Judged::Broken) * one;
        }
        said.families_broken += f64::from(judged.contains(&Judged::Broken)) * 100.0 / families as f64;
    }
    said
}

/// One line of the table in docs/lab/method.md: the shape, and a figure for each number of samples.
fn line(name: &str, figures: [f64; 4]) -> String {
    format!("| {name} | {} |\n", figures.map(|share| format!("{share:.1}")).join(" | "))
}

/// The rules of the method, each asserted, and its table with them: `UPDATE_GOLDEN=1` writes it.
#[test]
fn the_table_of_the_method_is_what_the_simulation_says() {
    let at = |shape, times, family| SIZES.map(|n| said(shape, (n, n), times, family));
    let mut table = String::from("| of 2,000 comparisons, in % | n = 5 | 10 | 20 | 40 |\n|---|--:|--:|--:|--:|\n");
    let mut row = |name: &str, figures: [f64; 4], holds: &dyn Fn(usize, f64) -> bool| {
        for (n, share) in SIZES.into_iter().zip(figures) {
            assert!(holds(n, share), "{name}, {n} samples: {share} %");
        }
        table.push_str(&line(name, figures));
    };
    let at_most = |limit: f64| move |_: usize, share: f64| share <= limit;

    let (narrow, wide) = (at(Shape::Same(0.02), 1.0, 1), at(Shape::Same(0.3), 1.0, 1));
    row("equals, spread 2 %: better or worse", narrow.each_ref().map(|said| said.better_or_worse), &at_most(6.0));
    row("the same: equal", narrow.each_ref().map(|said| said.equal), &|n, share| n < 40 || share > 90.0);
    row("the same: spikes", narrow.each_ref().map(|said| said.spikes), &at_most(5.0));
    row("equals, spread 30 %: better or worse", wide.each_ref().map(|said| said.better_or_worse), &at_most(6.0));
    row("the same: spikes", wide.each_ref().map(|said| said.spikes), &at_most(5.0));
    for spike in [1.5, 10.0] {
        let found = at(Shape::Spikes(spike), 1.0, 1);
        let name = format!("a fifth of the new runs {spike} times as large: equal");
        row(&name, found.each_ref().map(|said| said.equal), &|n, share| n < 20 || share <= 7.0);
        row("the same: spikes", found.each_ref().map(|said| said.spikes), &|n, share| n < 40 || share >= 90.0);
    }
    for (old, new) in [(0.02, 0.2), (0.2, 0.02)] {
        let found = at(Shape::Unlike(old, new), 1.0, 1);
        let name = format!("equal medians, spreads of {:.0} and {:.0} %: better or worse", old * 100.0, new * 100.0);
        row(&name, found.each_ref().map(|said| said.better_or_worse), &at_most(6.0));
    }
    let apart = at(Shape::Same(0.02), 1.1, 1);
    row("10 % more, spread 2 %: worse", apart.each_ref().map(|said| said.better_or_worse), &|n, share| {
        n < 10 || share > 99.0
    });
    for times in [1.0, 1.03, 1.1] {
        let (one, twenty) = (at(Shape::Same(0.02), times, 1), at(Shape::Same(0.02), times, 20));
        let broken = |said: &Said| said.broken;
        let name = format!("true ratio {times:.2}, spread 2 %: the gate of 5 % is broken");
        let is_more = times > 1.05;
        row(&name, one.each_ref().map(broken), &|n, share| {
            if is_more { n < 10 || share >= 80.0 } else { share <= 5.0 }
        });
        row("the same: it holds", one.each_ref().map(|said| said.holds), &|_, share| !is_more || share <= 5.0);
        let name = "the same, as one of 20 candidates: broken";
        row(name, twenty.each_ref().map(broken), &|n, share| !is_more || n < 10 || share >= 80.0);
        if !is_more {
            let name = format!("families of 20, true ratio {times:.2}, spread 30 %: any gate is broken");
            let families = at(Shape::Same(0.3), times, 20).map(|said| said.families_broken);
            row(&name, families, &at_most(5.0));
        }
    }
    is_in_the_method("simulation", &table);
}

/// Samples of unlike numbers and unlike spreads: the smaller one spreads further.
#[test]
fn unlike_spreads_are_no_difference() {
    for (sizes, shape) in [
        ((40, 10), Shape::Unlike(0.02, 0.2)),
        ((10, 40), Shape::Unlike(0.2, 0.02)),
        ((40, 5), Shape::Unlike(0.02, 0.2)),
        ((20, 10), Shape::Unlike(0.02, 0.05)),
        ((40, 10), Shape::Unlike(0.2, 0.02)),
    ] {
        let said = said(shape, sizes, 1.0, 1);
        assert!(said.better_or_worse <= 6.0, "{shape:?}, {sizes:?}: {} %", said.better_or_worse);
        assert!(said.broken <= 5.0, "{shape:?}, {sizes:?}: {} % of gates broken", said.broken);
    }
}

/// Compares the table between two marks of docs/lab/method.md, or writes it.
fn is_in_the_method(name: &str, table: &str) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/lab/method.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (first, last) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->"));
    let (head, rest) = text.split_once(&first).expect("the page has the first mark");
    let (old, tail) = rest.split_once(&last).expect("the page has the last mark");
    if std::env::var_os("UPDATE_GOLDEN").is_some_and(|value| value == "1") {
        std::fs::write(path, format!("{head}{first}{table}{last}{tail}")).unwrap();
        return;
    }
    assert_eq!(
        old, table,
        "where the change is meant: UPDATE_GOLDEN=1 cargo test --release -p allocanary-measure --lib simulation"
    );
}
