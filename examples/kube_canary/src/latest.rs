//! The latest round-trip times of one peer. In: durations. Out: their quantiles.
//!
//! A histogram counts all times: after a day of quick answers an hour of slow ones hardly changes its quantiles. Prometheus
//! takes the difference of two scrapes, but a person who looks at this canary wants to know the present state. So the last
//! [`LATEST`] times are kept, each in two bytes: a float without a sign, with 5 bits of exponent and 11 of fraction, exact to
//! 1 part in 4096.

/// The number of latest replies that are remembered. The share of lost probes is taken over the same number of probes.
pub const LATEST: usize = 64;
/// Bits of a code that are the fraction.
const FRACTION: u32 = 11;

/// A ring of durations. The owner of the ring knows how many were recorded.
#[derive(Clone, Debug)]
pub struct Latest([u16; LATEST]);

impl Latest {
    /// Empty.
    pub fn new() -> Self {
        Latest([0; LATEST])
    }

    /// Records a duration. `before` is the number of durations that were recorded before it.
    pub fn record(&mut self, before: u64, nanos: u64) {
        self.0[(before % LATEST as u64) as usize] = encode(nanos);
    }

    /// The latest durations in order. `all` is the number of durations that were ever recorded.
    pub fn sorted(&self, all: u64) -> Sorted {
        let mut sorted = Sorted { codes: self.0, count: all.min(LATEST as u64) as usize };
        sorted.codes[..sorted.count].sort_unstable();
        sorted
    }
}

impl Default for Latest {
    fn default() -> Self {
        Latest::new()
    }
}

/// The latest durations, from the shortest to the longest.
#[derive(Clone, Debug)]
pub struct Sorted {
    codes: [u16; LATEST],
    count: usize,
}

impl Sorted {
    /// The shortest duration, in nanoseconds, that at least the share `quantile` of the durations does not exceed. For 99
    /// % this is the longest. `None` if there is no duration.
    pub fn quantile(&self, quantile: f64) -> Option<u64> {
        let rank = (quantile * self.count as f64).ceil() as usize;
        self.codes[..self.count].get(rank.max(1) - 1).map(|code| decode(*code))
    }
}

/// Longer durations have greater codes, so that codes can be sorted. The longest is 73 minutes.
fn encode(nanos: u64) -> u16 {
    let exponent = (u64::BITS - nanos.leading_zeros()).saturating_sub(FRACTION + 1);
    let code = (u64::from(exponent) << FRACTION) + (nanos >> exponent);
    u16::try_from(code).unwrap_or(u16::MAX)
}

/// The middle of the durations that have that code.
fn decode(code: u16) -> u64 {
    let exponent = u32::from(code >> FRACTION).saturating_sub(1);
    let shortest = (u64::from(code) - (u64::from(exponent) << FRACTION)) << exponent;
    shortest + ((1 << exponent) >> 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use allocanary_testing::fuzz::holds;

    #[test]
    fn only_the_latest_count() {
        let mut latest = Latest::new();
        assert_eq!(latest.sorted(0).quantile(0.5), None);
        latest.record(0, 700);
        assert_eq!([0.0, 0.5, 1.0].map(|quantile| latest.sorted(1).quantile(quantile)), [Some(700); 3]);
        (1..=1000).for_each(|nanos| latest.record(nanos, nanos));
        let quantiles = [0.0, 0.5, 0.9, 0.99, 1.0].map(|quantile| latest.sorted(1001).quantile(quantile).unwrap());
        assert_eq!(quantiles, [937, 968, 994, 1000, 1000]);
    }

    #[test]
    fn fuzz_a_duration_keeps_its_place_and_all_but_a_4096th() {
        holds(256, 16, (0..1_u64 << 42, 0..1_u64 << 42), |(one, other)| {
            assert!(decode(encode(one)).abs_diff(one) <= one / 4096, "{one}");
            assert!(one > other || encode(one) <= encode(other), "{one} {other}");
        });
    }

    #[test]
    fn what_is_too_long_is_the_longest() {
        assert_eq!(encode(u64::MAX), u16::MAX);
        assert!(decode(u16::MAX) < 1 << 42 && decode(u16::MAX) > (1 << 42) - (1 << 31));
    }
}
