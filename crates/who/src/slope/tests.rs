use allocanary_sys::rng::Rng;

use super::*;
use crate::course::TIMES;

/// A number of an approximately normal distribution.
fn normal(rng: &mut Rng) -> f64 {
    (0..12).map(|_| (rng.next() >> 11) as f64 / (1_u64 << 53) as f64).sum::<f64>() - 6.0
}

/// Distances from a line, of which a share carries over.
fn distances(rng: &mut Rng, share: f64) -> Vec<f64> {
    let mut off = normal(rng) / if share < 1.0 { (1.0 - share * share).sqrt() } else { 1.0 };
    (0..TIMES)
        .map(|_| {
            let now = off;
            off = share * off + normal(rng);
            now
        })
        .collect()
}

/// The share of 1000 intervals that contain the true slope, 3 a step.
fn coverage(seed: u64, values: impl FnMut(&mut Rng) -> Vec<f64>) -> f64 {
    coverage_of(|values| Slope::of(values, TIMES as f64 - 1.0, 0.0), seed, values)
}

fn coverage_of(interval: impl Fn(&[f64]) -> Slope, seed: u64, mut values: impl FnMut(&mut Rng) -> Vec<f64>) -> f64 {
    let mut rng = Rng::new(seed);
    let holds = |_: &usize| {
        let off = values(&mut rng);
        let values: Vec<f64> = off.iter().enumerate().map(|(at, off)| 1000.0 + 3.0 * at as f64 + off).collect();
        let slope = interval(&values);
        slope.low <= 3.0 && 3.0 <= slope.high
    };
    (0..1000).filter(holds).count() as f64 / 1000.0
}

#[test]
fn an_interval_holds_the_truth_however_much_carries_over() {
    for share in [0.0, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0] {
        let covered = coverage(1, |rng| distances(rng, share));
        assert!(covered >= 0.92, "{share}: {covered}");
    }
    // For independent distances the intervals are as narrow as those of least squares.
    let covered = coverage(2, |rng| distances(rng, 0.0));
    assert!((0.93..0.98).contains(&covered), "{covered}");
    let mut rng = Rng::new(3);
    let widths = |rng: &mut Rng| {
        let slope = Slope::of(&distances(rng, 0.0), TIMES as f64 - 1.0, 0.0);
        slope.high - slope.low
    };
    let mean = (0..300).map(|_| widths(&mut rng)).sum::<f64>() / 300.0;
    assert!((0.038..0.05).contains(&mean), "2 x 2.01 / sqrt(48^3 / 12) is 0.042: {mean}");
}

/// The line of least squares, with an interval that assumes independent distances.
fn least_squares(values: &[f64]) -> Slope {
    let count = values.len() as f64;
    let times: Vec<f64> = (0..values.len()).map(|at| at as f64 - (count - 1.0) / 2.0).collect();
    let (mean, spread) = (values.iter().sum::<f64>() / count, times.iter().map(|time| time * time).sum::<f64>());
    let per_second = times.iter().zip(values).map(|(time, value)| time * value).sum::<f64>() / spread;
    let off = times.iter().zip(values).map(|(time, value)| (value - mean - per_second * time).powi(2)).sum::<f64>();
    let half = quantile(count - 2.0) * (off / (count - 2.0) / spread).sqrt();
    Slope { per_second, low: per_second - half, high: per_second + half }
}

/// In each step 20 calls leak a block with a chance of three in ten: the number of leaked blocks is a random walk with 6 a
/// step.
#[test]
fn blocks_that_leak_one_by_one_are_counted_right() {
    let walk = |rng: &mut Rng| {
        let mut live = 0.0;
        let mut off = Vec::new();
        for at in 0..TIMES {
            off.push(live - 6.0 * at as f64);
            live += (0..20).filter(|_| rng.below(10) < 3).count() as f64;
        }
        off
    };
    let covered = coverage(4, walk);
    assert!(covered >= 0.92, "{covered}");
    let naive = coverage_of(least_squares, 4, walk);
    assert!((0.15..0.25).contains(&naive), "{naive}");
    let independent = coverage_of(least_squares, 4, |rng| distances(rng, 0.0));
    assert!((0.93..0.97).contains(&independent), "{independent}");
}

fn grows(values: impl Fn(usize) -> f64) -> bool {
    let values: Vec<f64> = (0..TIMES).map(values).collect();
    growth(&values, 60.0, 1.0, values.iter().copied().fold(0.0, f64::max)).1
}

#[test]
fn what_goes_on_grows_and_what_fills_jumps_or_falls_does_not() {
    let mut rng = Rng::new(5);
    let noise: Vec<f64> = (0..TIMES).map(|_| 20.0 * normal(&mut rng)).collect();
    assert!(grows(|at| 100.0 * at as f64) && grows(|at| 1e6 + 1e3 * at as f64 + noise[at]));
    assert!(grows(|at| 1000.0 + 5.0 * at as f64 + noise[at]), "in spite of noise");
    assert!(!grows(|_| 5000.0) && !grows(|at| 5000.0 + noise[at]) && !grows(|at| 9000.0 - 100.0 * at as f64));
    assert!(!grows(|at| if at < 20 { 0.0 } else { 1e6 }), "one step");
    assert!(!grows(|at| 1e6 + at as f64), "47 bytes of a MB are not worth a word");
    // A table that fills in the first half, in the first two thirds, or more and more slowly.
    for until in [10, 24, 31] {
        assert!(!grows(|at| 1e4 + 1e3 * at.min(until) as f64), "{until}");
        assert!(!grows(|at| 1e4 + 1e3 * at.min(until) as f64 + noise[at]), "{until} with noise");
    }
    assert!(!grows(|at| 1e6 * (1.0 - (-(at as f64) / 12.0).exp())));
    // A cache that is emptied from time to time.
    assert!(!grows(|at| 1e4 + 1e3 * (at % 13) as f64) && !grows(|at| 1e4 + 1e3 * (at % 24) as f64));
}

#[test]
fn numbers_on_a_line_have_that_slope_within_a_block() {
    let values: Vec<f64> = (0..TIMES).map(|at| 7e9 + 64.0 * at as f64).collect();
    let slope = Slope::of(&values, 94.0, 64.0);
    assert!((slope.per_second - 32.0).abs() < 1e-6, "{slope:?}");
    assert!((slope.high - slope.low - 2.0 * 64.0 / 94.0).abs() < 1e-6, "{slope:?}");
    assert_eq!(Slope::of(&[0.0; TIMES], 9.0, 0.0), Slope::default());
    assert!((quantile(14.0) - 2.144_8).abs() < 2e-3 && (quantile(46.0) - 2.012_9).abs() < 1e-3);
}
