//! When a program that ends is read. In: its resident memory as it is sampled, and what readings took. Out: whether one may be made now.
//! Pure.
//!
//! A reading is worth it when the memory has grown by a tenth. It may be made in two cases:
//!
//! - It was earned: all readings of the candidate take at most 1 % of a core, this one included. Short runs save up for one.
//! - It is made in advance: the memory has stood still for a quarter of a second, and is half as much again as that of the largest
//!   reading. The time is taken from what is earned later, and until it is earned no other run of the candidate has one in advance.
//!
//! Without the second a program of few seconds had no divided heap on a busy machine: a reading takes more time there, and was earned
//! when the program had ended. Of each candidate one run at a time is ahead; each of its readings is of half as much memory again,
//! so that all together take three times as long as the last one at most.

use std::time::Duration;

/// The share of a core that readings may take: one in this many.
const ONE_IN: u32 = 100;
/// What a reading is expected to take before there was one: for each process, and for a GiB.
const EXPECTED: (Duration, Duration) = (Duration::from_millis(4), Duration::from_millis(350));
/// A program that is smaller is still being loaded.
const LEAST: u64 = 1 << 20;
/// Memory that has not changed by a tenth for so long stands still.
const STILL: Duration = Duration::from_millis(250);
/// After so many readings that failed none is made in advance.
const TRIES: u32 = 3;

/// What readings of a program took, and what its memory did since.
#[derive(Default)]
pub struct Schedule {
    /// The resident memory of the largest reading.
    largest: u64,
    /// The resident memory of the last one, and its processor time.
    last: Option<(u64, Duration)>,
    /// Processor time of all readings.
    cost: Duration,
    /// Readings that have divided no heap.
    failed: u32,
    /// The resident memory that it has had since some time after its start, but for a tenth.
    still: (u64, Duration),
    /// Microseconds of the candidate's earlier runs, less a hundred times what reading took in them: what they have left, or, if it is
    /// less than nothing, what they had in advance.
    pub saved: i64,
}

impl Schedule {
    /// Notes a sample of the resident memory, so long after the program's start.
    pub fn seen(&mut self, rss: u64, elapsed: Duration) {
        if rss.abs_diff(self.still.0) > self.still.0 / 10 {
            self.still = (rss, elapsed);
        }
    }

    /// Whether a reading is worth it now, and was earned or may be made in advance.
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
        // One that failed is made again, since the program may have started another one meanwhile; but not again and again.
        self.saved >= 0 && is_still && self.failed < TRIES && rss >= largest + largest / 2
    }

    /// Notes a reading, and whether it has divided a heap.
    pub fn read(&mut self, rss: u64, cost: Duration, is_divided: bool) {
        self.cost += cost;
        self.last = Some((rss, cost));
        if is_divided {
            self.largest = rss;
        } else {
            self.failed += 1;
        }
    }

    /// What is left for the candidate's next run, in microseconds, if this one took so long. Less than nothing if more was had in advance.
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
