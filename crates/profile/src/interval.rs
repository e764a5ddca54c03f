//! How far an estimate may be off. In: the samples of a site. Out: an estimate of its bytes, with a 95 % interval.
//!
//! Each sample proves S bytes, those of its own block. It also represents S/p - S further bytes, which are uncertain. The uncertain part is
//! a weighted sum of Poisson counts. Its interval is that of a gamma distribution with the same mean and variance (Fay and Feuer,
//! "Confidence intervals for directly standardized rates", 1997). For few samples it is much wider above than below, as it must be. A site
//! whose large blocks are all sampled may also have small blocks. So the upper bound is at least as far above them as that of a site
//! without a sample.

use crate::weight::chance;

/// A normal variable is below this value in 97.5 % of cases.
const Z: f64 = 1.959_964;

/// An estimate of bytes, and the bounds between which the truth lies in 95 of 100 cases.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BytesEstimate {
    /// The most likely number of bytes.
    pub bytes: f64,
    /// The lower bound.
    pub low: f64,
    /// The upper bound.
    pub high: f64,
}

/// Sums of samples.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SampleSums {
    /// The number of samples.
    pub samples: u64,
    /// The blocks that they represent.
    pub blocks: f64,
    /// Bytes of the sampled blocks themselves.
    certain: f64,
    /// The further bytes that they represent.
    besides: f64,
    /// The variance of `besides`.
    variance: f64,
    /// The most further bytes that one more sample could represent: those of a small block, which any site may have.
    most: f64,
    /// The maximum of size times chance over the sampled blocks: nearly 0 for a small block, and the whole size for a large one.
    seen: f64,
}

impl SampleSums {
    /// The sums of a site without a sample. No byte is proven, but small blocks may be there.
    pub fn none(mean: u64) -> SampleSums {
        SampleSums { most: mean as f64, ..SampleSums::default() }
    }

    /// Adds a sampled block of this size.
    pub fn add(&mut self, size: u64, mean: u64) {
        let (size, p) = (size as f64, chance(size, mean));
        if p <= 0.0 {
            return;
        }
        let besides = size * (1.0 - p) / p;
        self.samples += 1;
        self.blocks += 1.0 / p;
        self.certain += size;
        self.besides += besides;
        self.variance += (1.0 - p) * (size / p).powi(2);
        self.most = mean as f64;
        self.seen = self.seen.max(size * p);
    }

    /// Adds the samples of another sum.
    pub fn add_sum(&mut self, other: &SampleSums) {
        self.samples += other.samples;
        self.blocks += other.blocks;
        self.certain += other.certain;
        self.besides += other.besides;
        self.variance += other.variance;
        self.most = self.most.max(other.most);
        self.seen = self.seen.max(other.seen);
    }

    /// The estimate of these sums.
    pub fn estimate(&self) -> BytesEstimate {
        let bytes = self.certain + self.besides;
        // Blocks are counted whole, and perhaps all blocks of the site were sampled.
        let low = (gamma(self.besides, self.variance, -Z) - self.seen).max(0.0);
        let high = gamma(self.besides + self.most, self.variance + self.most.powi(2), Z);
        BytesEstimate { bytes, low: self.certain + low, high: (self.certain + high).max(bytes) }
    }
}

/// The most bytes that a site without a sample may hold, in 97.5 of 100 cases: -ln 0.025 mean distances.
pub fn unseen(mean: u64) -> f64 {
    3.689 * mean as f64
}

/// The quantile of a gamma distribution with this mean and variance at which a normal variable is `z`, after Wilson and Hilferty.
fn gamma(mean: f64, variance: f64, z: f64) -> f64 {
    if mean <= 0.0 || variance <= 0.0 {
        return mean.max(0.0);
    }
    let ninth = variance / (9.0 * mean * mean);
    mean * (1.0 - ninth + z * ninth.sqrt()).max(0.0).powi(3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use allocanary_sys::rng::Rng;

    #[test]
    fn an_interval_is_that_of_a_poisson_count() {
        let mut sum = SampleSums::default();
        (0..10).for_each(|_| sum.add(1, 1 << 20));
        let BytesEstimate { bytes, low, high } = sum.estimate();
        let times = |bytes: f64| bytes / f64::from(1 << 20);
        // Of 10 counts the exact interval is 4.80 to 18.39.
        assert!((times(bytes) - 10.0).abs() < 0.001);
        assert!((times(low) - 4.80).abs() < 0.05 && (times(high) - 18.39).abs() < 0.05, "{low} {high}");
    }

    #[test]
    fn what_is_always_sampled_is_known() {
        let mut sum = SampleSums::default();
        sum.add(100 << 20, 512 << 10);
        let BytesEstimate { bytes, low, high } = sum.estimate();
        assert!(bytes == f64::from(100 << 20) && low == bytes);
        // What small blocks there may be besides.
        assert!(((high - bytes) / unseen(512 << 10) - 1.0).abs() < 0.01, "{high}");
        let BytesEstimate { bytes, low, high } = SampleSums::none(512 << 10).estimate();
        assert!((bytes, low) == (0.0, 0.0) && (high / unseen(512 << 10) - 1.0).abs() < 0.01, "{high}");
    }

    /// Sites of many kinds, sampled many times: the truth is inside in at least 93 of 100 cases.
    #[test]
    fn intervals_hold_the_truth() {
        let (mean, mut rng) = (512 << 10, Rng::new(3));
        let uniform = |rng: &mut Rng| (rng.next() >> 11) as f64 / (1_u64 << 53) as f64;
        for (size, blocks) in
            [(64, 100_000), (64, 1_000_000), (1000, 5_000), (40_000, 200), (300_000, 30), (1 << 20, 9)]
        {
            let (mut inside, mut all, mut total) = (0, 0, 0.0);
            let truth = (size * blocks) as f64;
            let p = chance(size, mean);
            for _ in 0..400 {
                let mut sum = SampleSums::default();
                // By gaps: as many draws as there are samples.
                let mut at = 0_u64;
                loop {
                    at += 1 + (uniform(&mut rng).max(1e-300).ln() / (1.0 - p).ln()) as u64;
                    if at > blocks {
                        break;
                    }
                    sum.add(size, mean);
                }
                let found = sum.estimate();
                total += found.bytes;
                // A site without a sample is not among those that are shown.
                if sum.samples > 0 {
                    (inside, all) = (inside + u32::from((found.low..=found.high).contains(&truth)), all + 1);
                }
            }
            assert!(f64::from(inside) >= 0.93 * f64::from(all), "{size} x {blocks}: {inside} of {all}");
            let error = (blocks as f64 * p * (1.0 - p)).sqrt() * size as f64 / p / 20.0;
            assert!((total / 400.0 - truth).abs() < 4.0 * error + 1.0, "{size} x {blocks}: {} {truth}", total / 400.0);
        }
    }
}
