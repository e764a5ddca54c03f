//! Decides which allocations are sampled, and how many bytes a sample represents. In: sizes, random bits. Out: numbers.
//!
//! Imagine marks on the bytes that a program allocates, at random and with a mean distance of R bytes (a Poisson process). An allocation is
//! sampled if at least one of its S bytes has a mark. The chance of this is p = 1 - exp(-S/R). A sample counts as S/p bytes and 1/p blocks.
//! So the expected sum of all weights is the number of allocated bytes, whatever the sizes are.
//!
//! The functions use no mathematical library: preloads have none, and must not load one into a program.

/// The default of the mean distance of marks, in bytes.
pub const MEAN: u64 = 512 << 10;
/// The shortest and the longest mean distance, in bytes.
pub const MEANS: [u64; 2] = [1 << 10, 1 << 40];
/// The text of the error for any other mean distance.
pub const WANTED: &str = "wanted off, or a mean distance of samples from 1KiB to 1TiB such as 512KiB";

/// The longest distance between two marks, in bytes.
const FARTHEST: f64 = (1_u64 << 50) as f64;

/// The chance that an allocation of this size is sampled.
pub fn chance(size: u64, mean: u64) -> f64 {
    one_minus_exp(size as f64 / mean.max(1) as f64)
}

/// The bytes that a sample of this size represents.
pub fn weight(size: u64, mean: u64) -> f64 {
    // Size 0 would divide 0 by 0.
    if size == 0 { 0.0 } else { size as f64 / chance(size, mean) }
}

/// The bytes until the next mark, at least 1, from 64 random bits.
pub fn gap(bits: u64, mean: u64) -> u64 {
    // In (0, 1], because zero has no logarithm.
    let uniform = ((bits >> 11) + 1) as f64 / (1_u64 << 53) as f64;
    (-ln(uniform) * mean as f64).min(FARTHEST) as u64 + 1
}

/// The natural logarithm of a number in (0, 1], to some 1e-12.
fn ln(number: f64) -> f64 {
    const MANTISSA: u64 = (1 << 52) - 1;
    let bits = number.to_bits();
    let (mut exponent, mut part) = ((bits >> 52) as i64 - 1023, f64::from_bits(bits & MANTISSA | 1023 << 52));
    if part > std::f64::consts::SQRT_2 {
        (exponent, part) = (exponent + 1, part / 2.0);
    }
    // ln x = 2 artanh((x - 1) / (x + 1)), whose series is short for x near 1.
    let ratio = (part - 1.0) / (part + 1.0);
    let square = ratio * ratio;
    let series = (0..9).rev().fold(0.0, |sum, at| sum * square + 1.0 / f64::from(2 * at + 1));
    exponent as f64 * std::f64::consts::LN_2 + 2.0 * ratio * series
}

/// 1 - exp(-x) for x of at least 0, also where x is tiny.
fn one_minus_exp(x: f64) -> f64 {
    if x > 40.0 {
        return 1.0;
    }
    let (mut small, mut halvings) = (x, 0);
    while small > 0.5 {
        (small, halvings) = (small / 2.0, halvings + 1);
    }
    // x - x^2/2! + x^3/3! - ...
    let mut result = small * (1..16).rev().fold(1.0, |sum, at| 1.0 - sum * small / f64::from(at + 1));
    for _ in 0..halvings {
        // With q = 1 - exp(-x): 1 - exp(-2x) = q (2 - q).
        result *= 2.0 - result;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use allocanary_sys::rng::Rng;

    #[test]
    fn the_functions_are_those_of_the_mathematical_library() {
        for at in 1..4000 {
            let x = f64::from(at) * f64::from(at) / 400_000.0;
            let (own, real) = (one_minus_exp(x), -(-x).exp_m1());
            assert!((own / real - 1.0).abs() < 1e-13, "{x}: {own} {real}");
            let u = f64::from(at) / 4000.0;
            assert!((ln(u) - u.ln()).abs() < 1e-12, "{u}: {} {}", ln(u), u.ln());
        }
        assert_eq!((one_minus_exp(0.0), one_minus_exp(1e9)), (0.0, 1.0));
        assert!((one_minus_exp(1e-12) / 1e-12 - 1.0).abs() < 1e-9);
        assert!((ln(1e-300) - (1e-300_f64).ln()).abs() < 1e-9);
    }

    #[test]
    fn small_samples_stand_for_the_mean_and_large_ones_for_themselves() {
        assert!((weight(16, MEAN) - MEAN as f64).abs() < 10.0);
        assert!((weight(100 << 20, MEAN) - (100 << 20) as f64).abs() < 1.0);
        assert_eq!((weight(0, MEAN), chance(0, MEAN)), (0.0, 0.0));
        assert_eq!((gap(u64::MAX, MEAN), gap(0, MEAN) > MEAN * 30), (1, true));
    }

    /// What the sampler does with a run of allocations: the weights of one size's samples, and their squares.
    fn sampled(sizes: &[u64], mean: u64, rounds: u64, rng: &mut Rng) -> Vec<(u64, f64)> {
        let mut left = gap(rng.next(), mean);
        let mut out = vec![(0, 0.0); sizes.len()];
        for _ in 0..rounds {
            for (size, out) in sizes.iter().zip(&mut out) {
                if *size >= left {
                    *out = (out.0 + 1, out.1 + weight(*size, mean));
                    left = gap(rng.next(), mean);
                } else {
                    left -= size;
                }
            }
        }
        out
    }

    /// The sums have no bias: for each size the estimate is within five standard errors of what was allocated.
    #[test]
    fn sums_of_weights_are_what_was_allocated() {
        let (mean, rounds) = (4096, 300_000);
        let sizes = [1, 16, 24, 100, 1000, 4000, 4096, 10_000, 50_000];
        let mut rng = Rng::new(7);
        let all = sampled(&sizes, mean, rounds, &mut rng);
        for (size, (count, sum)) in sizes.into_iter().zip(all) {
            let (p, n) = (chance(size, mean), rounds as f64);
            // Samples are n independent draws with the chance p.
            let error = (n * p * (1.0 - p)).sqrt().max(1.0);
            assert!((count as f64 - n * p).abs() < 5.0 * error, "{size}: {count} samples, wanted {}", n * p);
            let allocated = (size * rounds) as f64;
            assert!((sum - allocated).abs() < 5.0 * error * weight(size, mean), "{size}: {sum}, wanted {allocated}");
        }
    }
}
