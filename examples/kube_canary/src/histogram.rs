//! A histogram of round-trip times with fixed bounds. In: durations. Out: counts per bucket, and their sum.

use std::sync::Arc;

use crate::native::Native;

/// Upper bounds in nanoseconds, rising. All peers share them, because a thousand copies would waste memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounds {
    nanos: Arc<[u64]>,
    /// Whether there are native buckets as well.
    native: bool,
}

/// From 50 us to 1 s: the same rack, the same zone, another zone, another region, a fault. There are only eleven bounds, because each bound
/// is one series for each peer.
const DEFAULT_US: [u64; 11] = [50, 100, 200, 400, 800, 1_600, 5_000, 20_000, 100_000, 400_000, 1_000_000];

impl Default for Bounds {
    fn default() -> Self {
        Bounds::new(DEFAULT_US.iter().map(|bound| bound * 1000).collect())
    }
}

impl Bounds {
    fn new(nanos: Arc<[u64]>) -> Self {
        Bounds { nanos, native: false }
    }

    /// The same, with native buckets as well.
    pub fn with_native(self) -> Self {
        Bounds { native: true, ..self }
    }

    /// Bounds in seconds; the error says what is wrong with them.
    pub fn from_seconds(seconds: &[f64]) -> Result<Self, String> {
        let rising = seconds.windows(2).all(|pair| pair[0] < pair[1]);
        let sensible = seconds.iter().all(|bound| bound.is_finite() && *bound >= 1e-9 && *bound <= 3600.0);
        if seconds.is_empty() || seconds.len() > 64 || !rising || !sensible {
            return Err(format!("wanted 1 to 64 rising bounds from 1e-9 to 3600 seconds, found {seconds:?}"));
        }
        Ok(Bounds::new(seconds.iter().map(|bound| (bound * 1e9).round() as u64).collect()))
    }

    /// Constant bounds.
    pub(crate) fn of_nanos<const N: usize>(rising: [u64; N]) -> Self {
        Bounds::new(rising.into())
    }

    /// The bounds in nanoseconds.
    pub fn nanos(&self) -> &[u64] {
        &self.nanos
    }
}

/// Counts of durations. The last count is of those above all bounds.
#[derive(Clone, Debug)]
pub struct Histogram {
    bounds: Bounds,
    counts: Box<[u64]>,
    sum_ns: u64,
    native: Option<Native>,
}

impl Histogram {
    /// An empty histogram.
    pub fn new(bounds: &Bounds) -> Self {
        let native = bounds.native.then(Native::new);
        Histogram { counts: vec![0; bounds.nanos.len() + 1].into(), bounds: bounds.clone(), sum_ns: 0, native }
    }

    /// Adds one duration.
    pub fn record(&mut self, nanos: u64) {
        let bucket = self.bounds.nanos.partition_point(|bound| *bound < nanos);
        self.counts[bucket] += 1;
        self.sum_ns = self.sum_ns.saturating_add(nanos);
        if let Some(native) = &mut self.native {
            native.record(nanos);
        }
    }

    /// The native buckets, if there are any.
    pub fn native(&self) -> Option<&Native> {
        self.native.as_ref()
    }

    /// The bounds.
    pub fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// One count for each bound, not cumulated, and one for all durations above the bounds.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// The sum of all durations, in nanoseconds.
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    /// How many durations there were.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_belongs_to_its_own_bucket() {
        let mut histogram = Histogram::new(&Bounds::from_seconds(&[0.001, 0.002]).unwrap());
        for nanos in [0, 1_000_000, 1_000_001, 2_000_000, 2_000_001, u64::MAX] {
            histogram.record(nanos);
        }
        assert_eq!(histogram.counts(), [2, 2, 2]);
        assert_eq!((histogram.count(), histogram.sum_ns()), (6, u64::MAX));
    }

    #[test]
    fn bounds_that_cannot_be_are_refused() {
        for bounds in [&[][..], &[0.2, 0.1], &[0.1, 0.1], &[0.0], &[f64::NAN], &[1e9]] {
            assert!(Bounds::from_seconds(bounds).is_err(), "{bounds:?}");
        }
    }
}
