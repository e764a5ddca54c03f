//! Durations of single operations: a histogram that is allocated before the clock starts, and filled by all threads.
//!
//! The process has one histogram behind a lock, which the threads' small buffers fill. A histogram for each thread
//! would add tens of kilobytes per thread to the memory that the study measures.

use std::sync::Mutex;

use hdrhistogram::Histogram;

use crate::meter::{Column, column};
use crate::workload::Timer;
use allocanary_rows::sample::Latency;
use allocanary_text::units::Unit;

/// The meter's readings, each once for a whole run.
pub const COLUMNS: &[Column] = &[
    column("p50_ns", Unit::Nanoseconds, "median duration of an operation"),
    column("p99_ns", Unit::Nanoseconds, "99 % of operations take at most this"),
    column("p999_ns", Unit::Nanoseconds, "99.9 % of operations take at most this"),
    column("max_ns", Unit::Nanoseconds, "the longest operation that was timed"),
];

/// Collects the durations of all threads.
pub struct LatencyMeter(Mutex<Histogram<u32>>);

impl LatencyMeter {
    /// A histogram with a range from 1 ns to 100 s in steps of at most 1 %.
    pub fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, 100_000_000_000, 2).expect("the bounds are constants");
        LatencyMeter(Mutex::new(histogram))
    }

    /// The quantiles so far, if one in `every` operations was timed; `None` if nothing was timed.
    pub fn latency(&self, every: u32) -> Option<Latency> {
        let histogram = self.0.lock().ok()?;
        (!histogram.is_empty()).then(|| Latency {
            timed: histogram.len(),
            every,
            p50_ns: histogram.value_at_quantile(0.5),
            p99_ns: histogram.value_at_quantile(0.99),
            p999_ns: histogram.value_at_quantile(0.999),
            max_ns: histogram.max(),
        })
    }
}

impl Default for LatencyMeter {
    fn default() -> Self {
        LatencyMeter::new()
    }
}

impl Timer for LatencyMeter {
    fn record(&self, laps: &[u64]) {
        if let Ok(mut histogram) = self.0.lock() {
            for lap in laps {
                histogram.saturating_record(*lap);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_one_percent() {
        let meter = LatencyMeter::new();
        assert_eq!(meter.latency(1), None);
        let laps: Vec<u64> = (1..=10_000).map(|lap| lap * 100).collect();
        meter.record(&laps);
        let latency = meter.latency(1).unwrap();
        assert_eq!(latency.timed, 10_000);
        for (found, wanted) in [(latency.p50_ns, 500_000.0), (latency.p99_ns, 990_000.0), (latency.max_ns, 1e6)] {
            assert!((found as f64 / wanted - 1.0).abs() < 0.01, "{found} for {wanted}");
        }
    }
}
