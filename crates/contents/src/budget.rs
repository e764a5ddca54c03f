//! The time limit of a reading: it says whether there is enough time left to begin a step.
//!
//! The limit is on the processor time of this thread: on a busy machine a reading has to wait, and must not be cut short by that. But the
//! waiting is limited too.

use std::time::{Duration, Instant};

use allocanary_sys::clocks::thread_cpu_time;

/// A reading ends at the latest after this many times its time limit, even if it was waiting.
pub const WAIT: u32 = 4;

/// A further reading is not begun if this part of the time is over. Listing ten million blocks takes a third of the whole time, and finding
/// their kinds another third. Each other step takes less.
pub const READING: f64 = 1.0 / 3.0;
/// Kinds are not found if this part of the time is over.
pub const KINDS: f64 = 1.0 / 2.0;
/// Holders are not found if this part of the time is over.
pub const HOLDERS: f64 = 2.0 / 3.0;
/// What single blocks retain is not computed if this part of the time is over.
pub const RETAINED: f64 = 5.0 / 6.0;

/// A time limit, and when it began.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    began: Instant,
    ran: Duration,
    time: Duration,
}

impl Budget {
    /// Begins now.
    pub fn of(time: Duration) -> Budget {
        Budget { began: Instant::now(), ran: thread_cpu_time(), time }
    }

    /// The latest time at which the limit ends, even if this thread only waits.
    pub fn until(&self) -> Option<Instant> {
        self.began.checked_add(self.time.saturating_mul(WAIT))
    }

    /// Whether this part of the time is over.
    pub fn is_past(&self, part: f64) -> bool {
        let ran = thread_cpu_time().saturating_sub(self.ran);
        self.has_spent(ran, self.began.elapsed(), part)
    }

    fn has_spent(&self, ran: Duration, waited: Duration, part: f64) -> bool {
        let most = self.time.mul_f64(part);
        ran >= most || waited >= most.saturating_mul(WAIT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_for_a_processor_has_more_time() {
        let budget = Budget::of(Duration::from_secs(30));
        let spent = |ran, waited| budget.has_spent(Duration::from_secs(ran), Duration::from_secs(waited), READING);
        assert!(!spent(9, 9) && !spent(9, 39) && spent(10, 10) && spent(1, 40));
        assert!(!budget.is_past(READING) && Budget::of(Duration::ZERO).is_past(READING));
    }
}
