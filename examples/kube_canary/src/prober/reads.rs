//! Decides when answers are read. In: sent probes, finished reads, the first deadline. Out: the time of the next read.
//!
//! An answer does not wake the prober. If the kernel records arrival times, answers can be read later, several at once.
//! Without arrival times, the wait until the read would be measured as the network's time.

/// If no other probe comes first, answers are read this long after a probe, then after twice this time, and so on. The kernel has recorded
/// their arrival times. A wake-up for each answer would double the cost if there are few peers.
pub const FIRST: u64 = 400_000_000;
/// The same if the kernel does not record arrival times, or has not yet shown that it does. Then a measured round trip is at most twice the
/// real one plus this time.
const FIRST_UNSTAMPED: u64 = 250_000;
/// Without arrival times answers are also read this long before a deadline. Otherwise an answer that came after half of the
/// timeout would be read too late.
const LAST: u64 = 2_000_000;
/// The longest time from one read to the next: the prober's housekeeping also reads.
const LONGEST: u64 = 1_000_000_000;

/// The next read.
#[derive(Debug)]
pub struct Reads {
    at: u64,
    gap: u64,
}

impl Reads {
    /// Before the first probe.
    pub const fn new() -> Self {
        Reads { at: 0, gap: FIRST_UNSTAMPED }
    }

    /// The time of the next read, if nothing else comes first.
    pub fn next(&self) -> u64 {
        self.at
    }

    /// Notes a probe that was sent at `now`. `stamped`: whether the kernel records arrival times. `deadline`: that of the oldest probe.
    pub fn sent(&mut self, now: u64, stamped: bool, deadline: Option<u64>) {
        self.gap = if stamped { FIRST } else { FIRST_UNSTAMPED };
        self.set(now, stamped, deadline);
    }

    /// Notes that answers were read at `now`.
    pub fn done(&mut self, now: u64, stamped: bool, deadline: Option<u64>) {
        self.gap = (self.gap * 2).min(LONGEST);
        self.set(now, stamped, deadline);
    }

    /// Sets the next read: after the gap, or just before the deadline if this matters and is still in the future.
    fn set(&mut self, now: u64, stamped: bool, deadline: Option<u64>) {
        let after = now + self.gap;
        let last = deadline.filter(|_| !stamped).map(|at| at.saturating_sub(LAST)).filter(|last| *last > now);
        self.at = last.map_or(after, |last| last.min(after));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEADLINE: u64 = 1_000_000_000;

    /// All reads until the deadline of a probe that went out at 0.
    fn reads(stamped: bool) -> Vec<u64> {
        let mut reads = Reads::new();
        reads.sent(0, stamped, Some(DEADLINE));
        let mut all = Vec::new();
        while reads.next() < DEADLINE {
            let now = reads.next();
            all.push(now);
            reads.done(now, stamped, Some(DEADLINE));
        }
        all
    }

    #[test]
    fn without_stamps_an_answer_is_read_before_its_deadline_whenever_it_came() {
        let reads = reads(false);
        assert_eq!((reads[0], reads.last()), (FIRST_UNSTAMPED, Some(&(DEADLINE - LAST))), "{reads:?}");
        // Every measured round trip is at most twice the real one, plus the first gap.
        for pair in reads.windows(2) {
            assert!(pair[1] <= 2 * pair[0] + FIRST_UNSTAMPED, "{reads:?}");
        }
        assert!(reads.len() < 16, "that many wake-ups for one probe: {reads:?}");
    }

    #[test]
    fn with_stamps_answers_wait_for_each_other() {
        assert_eq!(reads(true), [FIRST]);
    }

    #[test]
    fn reads_are_never_further_apart_than_a_second() {
        let mut reads = Reads::new();
        (0..99).for_each(|_| reads.done(7, true, None));
        assert_eq!(reads.next(), 7 + LONGEST);
    }
}
