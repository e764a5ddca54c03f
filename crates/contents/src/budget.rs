//! The time for a reading. In: how much there is. Out: whether there is enough left to begin a step.
//!
//! What counts is the processor time of this thread: on a busy machine a reading waits, and is not late for that. It may wait for so long
//! only.

use std::time::{Duration, Instant};

use allocanary_sys::clocks::thread_cpu_time;

/// A reading ends after so many times its processor time, whether it ran or not.
pub const WAIT: u32 = 4;

/// Steps that are left out if this part of the time is over before they begin. A list of ten million blocks takes a third of all, their kinds another
/// one, and each other step less.
pub const READING: f64 = 1.0 / 3.0;
/// To tell kinds.
pub const KINDS: f64 = 1.0 / 2.0;
/// To tell who holds the blocks.
pub const HOLDERS: f64 = 2.0 / 3.0;
/// To tell what single blocks retain.
pub const RETAINED: f64 = 5.0 / 6.0;

/// What is used of a time.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    began: Instant,
    ran: Duration,
    time: Duration,
}

impl Budget {
    /// It begins now.
    pub fn of(time: Duration) -> Budget {
        Budget { began: Instant::now(), ran: thread_cpu_time(), time }
    }

    /// When it is over, whether this thread ran or not.
    pub fn until(&self) -> Option<Instant> {
        self.began.checked_add(self.time.saturating_mul(WAIT))
    }

    /// Whether this part of it is over.
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
