//! Decides when the heap of a program that ends is read. In: samples of its resident memory, and the costs of readings. Out: whether a
//! reading may be made now. Nothing here reads memory or a clock.
//!
//! A reading is worth it when the memory has grown by a tenth. It may be made in two cases:
//!
//! - It was earned: all readings of the candidate, with this one, take at most 1 % of a core. Short runs save up for one.
//! - It is made in advance: the memory has not changed for a quarter of a second, and is at least 1.5 times that of the largest reading.
//!   The cost is earned back later. Until then, no other run of the candidate makes a reading in advance.
//!
//! Without the second case, a program of a few seconds would have no analysed heap on a busy machine: a reading takes longer there, and
//! would be earned only after the program has ended. Only one run of a candidate is in debt at a time. Each of its readings has at least
//! 1.5 times the memory of the last one, so all together take at most three times as long as the last one.

use std::time::Duration;

/// The share of a core that readings may take: one in this many.
const ONE_IN: u32 = 100;
/// The expected cost of the first reading: for each process, and for each GiB.
const EXPECTED: (Duration, Duration) = (Duration::from_millis(4), Duration::from_millis(350));
/// A program with less resident memory is still being loaded.
const LEAST: u64 = 1 << 20;
/// The memory stands still if it has changed by less than a tenth during this time.
const STILL: Duration = Duration::from_millis(250);
/// After this many failed readings, none is made in advance.
const TRIES: u32 = 3;

/// The costs of a program's readings, and what its memory did since.
#[derive(Default)]
pub struct Schedule {
    /// The resident memory of the largest reading.
    largest: u64,
    /// The resident memory of the last reading, and its processor time.
    last: Option<(u64, Duration)>,
    /// Processor time of all readings.
    cost: Duration,
    /// Readings that could not analyse a heap.
    failed: u32,
    /// The resident memory that has not changed by more than a tenth, and since when after the program's start.
    still: (u64, Duration),
    /// Microseconds that the candidate's earlier runs have left: their time, less a hundred times the cost of their readings. Negative if a
    /// reading was made in advance.
    pub saved: i64,
}

impl Schedule {
    /// Notes a sample of the resident memory. `elapsed`: the time since the program's start.
    pub fn seen(&mut self, rss: u64, elapsed: Duration) {
        if rss.abs_diff(self.still.0) > self.still.0 / 10 {
            self.still = (rss, elapsed);
        }
    }

    /// Whether a reading is worth it now, and is earned or may be made in advance.
    pub fn may(&self, processes: usize, rss: u64, elapsed: Duration) -> bool {
        let largest = self.largest.max(LEAST);
        rss > largest + largest / 10 && (self.is_earned(processes, rss, elapsed) || self.is_in_advance(rss, elapsed))
    }

    fn is_earned(&self, processes: usize, rss: u64, elapsed: Duration) -> bool {
        let more = |bytes: u64| EXPECTED.1.mul_f64(bytes as f64 / f64::from(1 << 30));
        let expected = match self.last {
            Some((last, cost)) => cost + more(rss.saturating_sub(last)),
            None => EXPECTED.0 * processes as u32 + more(rss),
        };
        micros(expected * ONE_IN) <= self.balance(elapsed)
    }

    fn is_in_advance(&self, rss: u64, elapsed: Duration) -> bool {
        let is_still = elapsed.saturating_sub(self.still.1) >= STILL;
        let largest = self.largest.max(LEAST);
        // A failed reading is made again, since the program may have started another one meanwhile, but only a few times.
        self.saved >= 0 && is_still && self.failed < TRIES && rss >= largest + largest / 2
    }

    /// Notes a reading, and whether it has analysed a heap.
    pub fn read(&mut self, rss: u64, cost: Duration, is_divided: bool) {
        self.cost += cost;
        self.last = Some((rss, cost));
        if is_divided {
            self.largest = rss;
        } else {
            self.failed += 1;
        }
    }

    /// The microseconds that are left for the candidate's next run, after this one took `elapsed`. Negative if a reading was made in
    /// advance.
    pub fn balance(&self, elapsed: Duration) -> i64 {
        self.saved.saturating_add(micros(elapsed)).saturating_sub(micros(self.cost * ONE_IN))
    }
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    /// A schedule of a program whose memory grows, so that nothing is read in advance.
    fn growing() -> Schedule {
        Schedule { saved: 0, still: (0, ms(1_000_000)), ..Schedule::default() }
    }

    #[test]
    fn readings_are_of_a_tenth_more_memory_each_and_take_a_hundredth_of_the_time() {
        let mut schedule = growing();
        assert!(!schedule.may(1, LEAST, ms(10_000)), "it is still being loaded");
        assert!(!schedule.may(1, 2 * LEAST, ms(399)) && schedule.may(1, 2 * LEAST, ms(500)));
        assert!(!schedule.may(3, 2 * LEAST, ms(500)), "each process takes its time");
        schedule.read(40 * MIB, ms(10), true);
        schedule.read(100 * MIB, ms(20), true);
        assert!(!schedule.may(1, 110 * MIB, ms(60_000)));
        // 30 ms so far, 20 as before, and 34 for 100 MiB more.
        assert!(!schedule.may(1, 200 * MIB, ms(8_400)) && schedule.may(1, 200 * MIB, ms(8_500)));
        // What earlier runs did not use is added.
        schedule.saved = 6_000_000;
        assert!(!schedule.may(1, 200 * MIB, ms(2_400)) && schedule.may(1, 200 * MIB, ms(2_500)));
        assert_eq!((schedule.balance(ms(1_000)), schedule.balance(ms(4_000))), (4_000_000, 7_000_000));
    }

    #[test]
    fn what_stands_still_is_read_in_advance_once_until_it_is_half_as_much_again() {
        let mut schedule = Schedule::default();
        schedule.seen(50 * MIB, ms(100));
        schedule.seen(54 * MIB, ms(300));
        assert!(!schedule.may(1, 54 * MIB, ms(349)) && schedule.may(1, 54 * MIB, ms(350)));
        // It took longer than 1 % of the run.
        schedule.read(54 * MIB, ms(30), true);
        schedule.seen(80 * MIB, ms(400));
        assert!(!schedule.may(1, 80 * MIB, ms(900)), "most of it is divided");
        schedule.seen(120 * MIB, ms(1_000));
        assert!(!schedule.may(1, 120 * MIB, ms(1_200)), "it has just grown");
        assert!(schedule.may(1, 120 * MIB, ms(1_250)));
        for _ in 0..TRIES {
            assert!(schedule.may(1, 120 * MIB, ms(1_300)));
            schedule.read(120 * MIB, ms(60), false);
        }
        assert!(!schedule.may(1, 120 * MIB, ms(1_300)), "one that fails is not made again and again");
        assert!(schedule.may(1, 120 * MIB, ms(27_000)), "but when it is earned");
    }

    #[test]
    fn what_one_run_had_in_advance_the_next_ones_earn_first() {
        let mut first = Schedule::default();
        first.seen(50 * MIB, ms(0));
        first.read(50 * MIB, ms(30), true);
        let mut next = Schedule { saved: first.balance(ms(1_000)), ..Schedule::default() };
        assert_eq!(next.saved, -2_000_000);
        next.seen(50 * MIB, ms(0));
        assert!(!next.may(1, 50 * MIB, ms(1_000)));
        assert!(next.may(1, 50 * MIB, ms(5_000)), "2 s, and 21 ms of which each is 1 %");
        let third = Schedule { saved: next.balance(ms(2_000)), ..next };
        assert!(third.may(1, 50 * MIB, ms(250)), "it is even");
    }
}
