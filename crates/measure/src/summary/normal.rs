//! The normal distribution. In: a probability. Out: the distance from the mean, in standard deviations.

/// The z for which P(Z > z) is `tail`. It is found by halving an interval.
pub fn quantile(tail: f64) -> f64 {
    let halved = |(low, high): (f64, f64), _| {
        let middle = (low + high) / 2.0;
        if self::tail(middle) > tail { (middle, high) } else { (low, middle) }
    };
    (0..50).fold((0.0, 9.0), halved).0
}

/// P(Z > z) for z >= 0, by Abramowitz and Stegun 26.2.17; the error is below 1e-7.
pub fn tail(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z);
    let terms = [0.319_381_530, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    let sum = terms.iter().rev().fold(0.0, |sum, term| (sum + term) * t);
    (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt() * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_that_of_textbook_tables() {
        assert!((quantile(0.025) - 1.959_964).abs() < 1e-4 && (quantile(0.005) - 2.575_829).abs() < 1e-4);
    }
}
