//! What a budget may cost. In: the time, and what was done. Out: whether more may be done now.
//!
//! It earns 5 % of a processor's time, and keeps at most 0.4 seconds. A process that was calm for eight seconds has a full one.

/// One nanosecond is earned in so many.
const SHARE: u64 = 20;
/// The most that is kept, and that is owed, in nanoseconds.
const MOST: i64 = 400_000_000;
const MOST_OWED: i64 = -1_000_000_000;
/// What a page costs that a purge has given back, and that is taken again: a page fault with its zeros. Measured with sixteen threads on two
/// busy processors: 1.3 to 1.5 us.
const PAGE_AGAIN: u64 = 1_500;
/// What a page fault costs while freed pages are not kept: with it the call that gave the page back, a few pages at a time, for which all
/// threads wait. Measured there: 5.5 us.
const FAULT: u64 = 5_000;
/// Bytes of a page, where only bytes are known.
const PAGE: u64 = 4096;

/// Nanoseconds of a processor's time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Purse {
    has: i64,
    /// The time of the last earning; 0 before the first.
    at: u64,
}

impl Purse {
    /// A full one.
    pub(super) const fn new() -> Purse {
        Purse { has: MOST, at: 0 }
    }

    /// Earns until `now`.
    pub(super) fn earn(&mut self, now: u64) {
        if self.at != 0 {
            let earned = now.saturating_sub(self.at) / SHARE;
            self.has = self.has.saturating_add(i64::try_from(earned).unwrap_or(MOST)).min(MOST);
        }
        self.at = now;
    }

    /// Pays so many nanoseconds.
    pub(super) fn pay(&mut self, nanos: u64) {
        self.has = self.has.saturating_sub(i64::try_from(nanos).unwrap_or(i64::MAX)).max(MOST_OWED);
    }

    /// Pays for so many bytes that were given back: they may be taken again.
    pub(super) fn pay_pages(&mut self, bytes: u64) {
        self.pay((bytes / PAGE).saturating_mul(PAGE_AGAIN));
    }

    /// Pays for so many page faults while freed pages are not kept.
    pub(super) fn pay_faults(&mut self, faults: u64) {
        self.pay(faults.saturating_mul(FAULT));
    }

    /// Whether something is left.
    pub(super) fn has(self) -> bool {
        self.has > 0
    }

    /// Whether at least half of the most is left.
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
