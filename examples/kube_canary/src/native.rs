//! Prometheus' native histogram. In: durations. Out: counts of buckets, each 9 % wide. Only buckets with a count are sent.
//!
//! A bucket ends at a power of 2^(1/8) seconds, which is schema 3. From one microsecond to 16 seconds there are 193 buckets in less than
//! 800 bytes. Shorter durations count as zero, longer ones are in the last bucket.

/// From a duration to its double there are 2^`SCHEMA` buckets.
pub const SCHEMA: i32 = 3;
/// The bucket that ends at 2^-20 s. Durations up to its end count as zero.
const LOWEST: i32 = -20 * (1 << SCHEMA);
/// The bucket that ends at 16 s.
const HIGHEST: i32 = 4 << SCHEMA;

/// Counts of durations.
#[derive(Clone, Debug)]
pub struct Native {
    /// The first count is that of durations that count as zero. The next one is that of the bucket after [`LOWEST`].
    counts: Box<[u32]>,
}

/// Adjacent buckets, none of them empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span<'a> {
    /// The number of the first bucket.
    pub first: i32,
    /// The count of each bucket.
    pub counts: &'a [u32],
}

impl Native {
    /// An empty histogram.
    pub fn new() -> Self {
        Native { counts: vec![0; (HIGHEST - LOWEST + 1) as usize].into() }
    }

    /// Adds one duration.
    pub fn record(&mut self, nanos: u64) {
        let bucket = (nanos as f64 / 1e9).log2() * f64::from(1 << SCHEMA);
        // The logarithm of 0 nanoseconds is below all buckets.
        let at = (bucket.ceil() as i32).clamp(LOWEST, HIGHEST) - LOWEST;
        self.counts[at as usize] = self.counts[at as usize].saturating_add(1);
    }

    /// The longest duration that counts as zero, in seconds.
    pub fn zero_threshold() -> f64 {
        2f64.powi(LOWEST >> SCHEMA)
    }

    /// The number of durations that count as zero.
    pub fn zeros(&self) -> u64 {
        self.counts[0].into()
    }

    /// The buckets that have a count, as spans.
    pub fn spans(&self) -> impl Iterator<Item = Span<'_>> {
        let mut at = 1;
        self.counts[1..].chunk_by(|one, other| (*one > 0) == (*other > 0)).filter_map(move |counts| {
            let first = LOWEST + at;
            at += counts.len() as i32;
            (counts[0] > 0).then_some(Span { first, counts })
        })
    }
}

impl Default for Native {
    fn default() -> Self {
        Native::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use allocanary_testing::fuzz::holds;

    #[test]
    fn a_duration_is_in_the_bucket_that_ends_after_it() {
        let bucket = |nanos| {
            let mut native = Native::new();
            native.record(nanos);
            let found: Vec<i32> = native.spans().map(|span| span.first).collect();
            assert_eq!(found.len() as u64 + native.zeros(), 1);
            found.first().copied()
        };
        assert_eq!([bucket(1_000_000_000), bucket(1_000_000_001), bucket(2_000_000_000)], [Some(0), Some(1), Some(8)]);
        assert_eq!([bucket(0), bucket(900)], [None; 2], "not above a microsecond");
        assert_eq!(bucket(u64::MAX), Some(HIGHEST));
    }

    #[test]
    fn buckets_that_follow_each_other_are_one_span() {
        let mut native = Native::new();
        [1_000_000_000, 1_050_000_000, 1_060_000_000, 8_000_000_000].into_iter().for_each(|nanos| native.record(nanos));
        let spans: Vec<Span> = native.spans().collect();
        assert_eq!(spans, [Span { first: 0, counts: &[1, 2] }, Span { first: 24, counts: &[1] }]);
    }

    #[test]
    fn fuzz_a_bucket_s_ends_are_about_its_values() {
        holds(256, 16, (1_000_u64..16_000_000_000,), |(nanos,)| {
            let mut native = Native::new();
            native.record(nanos);
            let end = 2f64.powf(f64::from(native.spans().next().unwrap().first) / 8.0);
            let seconds = nanos as f64 / 1e9;
            assert!(seconds <= end * (1.0 + 1e-12) && seconds >= end / 1.0906, "{seconds} {end}");
        });
    }
}
