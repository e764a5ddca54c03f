//! The arrival time of a packet. In: the kernel's receive time, by the wall clock. Out: the same instant by the steady
//! clock.
//!
//! The kernel stamps a packet when it arrives, so that other work or a stop of this process is not measured as latency. Probes keep their
//! send time by the steady clock. The difference of the two clocks is read again with every batch of packets. So it does no harm if the
//! wall clock is slewed, or steps between send and receipt. A step between the receipt and the reading changes the difference: some packets
//! of this batch came before the step, and some after it. For each packet, the old or the new difference is used, whichever puts its
//! arrival between the last reading and this one.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::clock;

/// The difference of the two clocks may change by this much between two batches, plus a tenth of the time between them:
/// no clock is slewed faster.
const TOLERABLE_NS: u64 = 1_000_000;

/// The two clocks are nearly always read within this many nanoseconds of each other.
pub const EXACT: u64 = 10_000;

/// Both clocks at one moment: the steady one and the wall clock.
pub fn both() -> (u64, u64) {
    let mut best = (u64::MAX, 0, 0);
    for _ in 0..4 {
        let before = clock::now();
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |wall| wall.as_nanos() as u64);
        let gap = clock::now() - before;
        if gap < best.0 {
            best = (gap, before, wall);
        }
        // If the gap is longer, something else ran between the two readings.
        if gap < EXACT {
            break;
        }
    }
    (best.1, best.2)
}

/// The two clocks, as they were at the last reading.
#[derive(Debug, Default)]
pub struct Stamps {
    last: Option<(u64, i64)>,
    /// The reading before, if the wall clock has stepped since then.
    unstepped: Option<(u64, i64)>,
    now: u64,
}

impl Stamps {
    /// Reads both clocks before a batch. Returns true if the wall clock has stepped.
    pub fn read(&mut self) -> bool {
        let (steady, wall) = both();
        self.set(steady, wall)
    }

    fn set(&mut self, steady: u64, wall: u64) -> bool {
        let difference = wall.wrapping_sub(steady) as i64;
        let stepped = self.last.is_some_and(|(then, before)| {
            difference.abs_diff(before) > TOLERABLE_NS + steady.saturating_sub(then) / 10
        });
        self.unstepped = self.last.filter(|_| stepped);
        self.last = Some((steady, difference));
        self.now = steady;
        stepped
    }

    /// The time of the last reading, by the steady clock.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// The arrival time, by the steady clock, of a packet that the kernel stamped with `wall`. Without a stamp it is
    /// now.
    pub fn steady(&self, wall: Option<u64>) -> u64 {
        let (Some(wall), Some((_, difference))) = (wall, self.last) else { return clock::now() };
        // A packet may come between the reading and its receipt. But a much later stamp is not valid.
        let latest = self.now + TOLERABLE_NS * 100;
        let (earliest, before) = match self.unstepped {
            Some((then, before)) => (then.saturating_sub(TOLERABLE_NS), Some(before)),
            None => (0, None),
        };
        let readings = [Some(difference), before].into_iter().flatten().map(|by| wall.wrapping_sub(by as u64));
        // Both differences may fit if the step is shorter than the time between the readings. Then the earlier time is used, so that no
        // latency is invented.
        readings.filter(|at| (earliest..=latest).contains(at)).min().unwrap_or_else(clock::now)
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
        // By a twentieth, which is no step either.
        assert!(!stamps.set(2_000_005_000, EPOCH + 2_050_505_000));
        // In the future: this process is not that old.
        let year = 31_536_000_000_000_000;
        assert!(stamps.steady(Some(EPOCH + year)) < year / 2);
    }

    #[test]
    fn a_step_is_noticed_once_and_what_came_before_and_after_it_keeps_its_time() {
        const SECOND: u64 = 1_000_000_000;
        for step in [-3_600, 3_600, 2, -2].map(|seconds| seconds * SECOND as i64) {
            let mut stamps = Stamps::default();
            stamps.set(9 * SECOND, EPOCH + 9 * SECOND);
            let stepped = EPOCH.wrapping_add_signed(step);
            assert!(stamps.set(10 * SECOND, stepped + 10 * SECOND));
            for at in [9 * SECOND + 1, 9 * SECOND + 600_000_000, 10 * SECOND - 1] {
                assert_eq!(stamps.steady(Some(EPOCH + at)), at, "before a step of {step}");
                assert_eq!(stamps.steady(Some(stepped + at)), at, "after a step of {step}");
            }
            assert!(!stamps.set(11 * SECOND, stepped + 11 * SECOND));
            assert_eq!(stamps.steady(Some(stepped + 10 * SECOND + 500)), 10 * SECOND + 500);
        }
    }

    #[test]
    fn a_step_too_short_to_tell_makes_no_packet_later_than_it_was() {
        for step in [-50_000_000, 50_000_000] {
            let mut stamps = Stamps::default();
            stamps.set(0, EPOCH);
            let stepped = EPOCH.wrapping_add_signed(step);
            assert!(stamps.set(400_000_000, stepped + 400_000_000));
            for stamp in [EPOCH, stepped] {
                let at = stamps.steady(Some(stamp + 200_000_000));
                assert!((150_000_000..=200_000_000).contains(&at), "{at}");
            }
        }
    }
}
