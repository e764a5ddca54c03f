//! When a packet came. In: the kernel's receive time, by the wall clock. Out: the same instant by the steady clock.
//!
//! The kernel stamps a packet as it arrives, so that what this process did meanwhile (or that it was stopped) is no
//! latency. Probes keep the steady clock's send time; the difference of the two clocks is read anew with every batch of
//! packets, so that a wall clock that is slewed, or steps between send and receipt, does no harm. Only a step between the
//! receipt and the reading does: it shows as a jump of the difference, and that batch is timed by the steady clock alone.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::clock;

/// The difference may change by so much between two batches, and by a tenth of the time between them: no clock is
/// slewed faster.
const TOLERABLE_NS: u64 = 1_000_000;

/// The two clocks, as they were at the last reading.
#[derive(Debug, Default)]
pub struct Stamps {
    last: Option<(u64, i64)>,
    trusted: bool,
    now: u64,
}

impl Stamps {
    /// Reads both clocks before a batch. True where the wall clock has stepped.
    pub fn read(&mut self) -> bool {
        let mut best = (u64::MAX, 0, 0);
        for _ in 0..4 {
            let before = clock::now();
            let wall = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |wall| wall.as_nanos() as u64);
            let gap = clock::now() - before;
            if gap < best.0 {
                best = (gap, before, wall);
            }
            // Else something ran between the two readings.
            if gap < 10_000 {
                break;
            }
        }
        self.set(best.1, best.2)
    }

    fn set(&mut self, steady: u64, wall: u64) -> bool {
        let difference = wall.wrapping_sub(steady) as i64;
        let stepped = self.last.is_some_and(|(then, before)| {
            difference.abs_diff(before) > TOLERABLE_NS + steady.saturating_sub(then) / 10
        });
        self.last = Some((steady, difference));
        self.trusted = !stepped;
        self.now = steady;
        stepped
    }

    /// The time of the last reading, by the steady clock.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// When a packet that the kernel stamped with `wall` came, by the steady clock. Without a stamp it is now.
    pub fn steady(&self, wall: Option<u64>) -> u64 {
        match (wall, self.last) {
            // A packet may come between the reading and the receipt; what is much later than that is no stamp.
            (Some(wall), Some((_, difference))) if self.trusted => {
                let steady = wall.wrapping_sub(difference as u64);
                if steady <= self.now + TOLERABLE_NS * 100 { steady } else { clock::now() }
            }
            _ => clock::now(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPOCH: u64 = 1_700_000_000_000_000_000;

    #[test]
    fn a_stamp_is_moved_by_the_difference_of_the_clocks() {
        let mut stamps = Stamps::default();
        assert!(!stamps.set(5_000, EPOCH + 5_000));
        assert_eq!(stamps.steady(Some(EPOCH + 4_000)), 4_000);
        // Slewed by half a millisecond over a second.
        assert!(!stamps.set(1_000_005_000, EPOCH + 1_000_505_000));
        assert_eq!(stamps.steady(Some(EPOCH + 1_000_504_000)), 1_000_004_000);
    }

    #[test]
    fn a_step_is_noticed_once_and_its_batch_is_timed_by_the_steady_clock() {
        for step in [-3_600_000_000_000_i64, 5_000_000] {
            let mut stamps = Stamps::default();
            stamps.set(0, EPOCH);
            let stepped = EPOCH.wrapping_add_signed(step);
            assert!(stamps.set(1_000, stepped + 1_000));
            let before = clock::now();
            assert!(stamps.steady(Some(EPOCH + 500)) >= before);
            assert!(!stamps.set(2_000, stepped + 2_000));
            assert_eq!(stamps.steady(Some(stepped + 1_500)), 1_500);
        }
    }
}
