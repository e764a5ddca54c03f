//! The processor time that a budget may spend. In: the time, and the work that was done. Out: whether more work may be done
//! now.
//!
//! The purse earns 5 % of a processor's time, and keeps at most 0.4 seconds. After eight calm seconds it is full.

/// The purse earns one nanosecond in this many nanoseconds.
const SHARE: u64 = 20;
/// The most that the purse keeps, and the most that it owes, in nanoseconds.
const MOST: i64 = 400_000_000;
const MOST_OWED: i64 = -1_000_000_000;
/// The cost of a page that a purge has given back and the program takes again: a page fault that fills the page with zeros. Measured with
/// sixteen threads on two busy processors: 1.3 to 1.5 us.
const PAGE_AGAIN: u64 = 1_500;
/// The cost of a page fault while freed pages are not kept. It includes the cost of returning the page: the allocator returns a few pages
/// at a time, and all threads wait. Measured on the same processors: 5.5 us.
const FAULT: u64 = 5_000;
/// The page size by which bytes are converted to pages.
const PAGE: u64 = 4096;

/// Nanoseconds of a processor's time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Purse {
    has: i64,
    /// The time of the last earning; 0 before the first.
    at: u64,
}

impl Purse {
    pub(super) const fn new() -> Purse {
        Purse { has: MOST, at: 0 }
    }

    /// Adds what was earned until `now`.
    pub(super) fn earn(&mut self, now: u64) {
        if self.at != 0 {
            let earned = now.saturating_sub(self.at) / SHARE;
            self.has = self.has.saturating_add(i64::try_from(earned).unwrap_or(MOST)).min(MOST);
        }
        self.at = now;
    }

    pub(super) fn pay(&mut self, nanos: u64) {
        self.has = self.has.saturating_sub(i64::try_from(nanos).unwrap_or(i64::MAX)).max(MOST_OWED);
    }

    /// Pays for `bytes` that were given back: the program may take them again.
    pub(super) fn pay_pages(&mut self, bytes: u64) {
        self.pay((bytes / PAGE).saturating_mul(PAGE_AGAIN));
    }

    /// Pays for page faults while freed pages are not kept.
    pub(super) fn pay_faults(&mut self, faults: u64) {
        self.pay(faults.saturating_mul(FAULT));
    }

    pub(super) fn has(self) -> bool {
        self.has > 0
    }

    /// Whether at least half of the maximum is left.
    pub(super) fn is_full(self) -> bool {
        self.has >= MOST / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_twentieth_of_the_time_is_earned_and_what_is_owed_is_paid_off() {
        let mut purse = Purse::new();
        assert!(purse.is_full());
        purse.earn(1_000_000_000);
        purse.pay(450_000_000);
        assert!(!purse.has(), "50 ms are owed");
        purse.earn(1_900_000_000);
        assert!(!purse.has());
        purse.earn(2_100_000_000);
        assert!(purse.has() && !purse.is_full());
        purse.earn(100_000_000_000);
        purse.pay(399_000_000);
        assert!(purse.has(), "no more than 0.4 seconds are kept");
        purse.pay(1_000_000);
        assert!(!purse.has());
        purse.pay_pages(u64::MAX);
        purse.earn(120_000_000_000);
        assert!(!purse.has(), "a second is owed at most");
        purse.earn(120_100_000_000);
        assert!(purse.has());
        purse.pay_faults(1_001);
        assert!(!purse.has());
    }
}
