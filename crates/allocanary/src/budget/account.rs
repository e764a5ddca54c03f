//! The decisions of a memory budget. In: readings (the limit, the bytes in use, the time), and the results of purges. Out: orders. It makes
//! no readings and no calls itself.
//!
//! Allocations trigger readings. A purge is worth its time only if more bytes are in use than after the last purge. If the program's live
//! bytes exceed the limit, no purge helps: the next one waits until a further 2 % of the limit are in use.
//!
//! The main cost of a purge comes later: each page that the program takes again is a page fault. Near the limit these faults took nine
//! tenths of a program's time. So all work of a budget is paid from a purse: 5 % of a processor's time. When the purse is empty, pages
//! are given back only from 90 % of the limit on, and only if two conditions are met: no more than the limit has been in use, and the
//! last two purges were not in vain. Then the purges are what keeps the kernel from killing the process. (97 % was tried: a thread that
//! grew a block by more than the rest of the limit was killed before the next reading.)

use super::level::{Level, share};
use super::purse::Purse;

/// A reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetUsage {
    /// The limit in bytes; `None` if there is none.
    pub limit: Option<u64>,
    /// The bytes in use.
    pub used: u64,
    /// The bytes of a large block that is about to be used. The program may never touch the block, or may fail to get it. So these
    /// bytes can only make a purge due: they do not change the level that the program is told.
    pub more: u64,
    /// Nanoseconds of a clock that only goes forward.
    pub now: u64,
    /// How many nanoseconds the reading took.
    pub took: u64,
    /// Page faults of the process so far; 0 if they are not read: see [`BudgetHistory::asks_for_faults`].
    pub faults: u64,
}

impl BudgetUsage {
    /// The bytes in use once the block is used. A block larger than the limit is not counted: the program cannot use it
    /// as a whole.
    fn ahead(&self) -> u64 {
        let counts = self.limit.is_some_and(|limit| self.more <= limit);
        self.used.saturating_add(if counts { self.more } else { 0 })
    }
}

/// The budget's orders to its caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Orders {
    /// Give back what the allocator keeps. Call [`BudgetHistory::purged`] afterwards.
    pub purge: bool,
    /// Ask every thread to give back what it keeps.
    pub everyone: bool,
    /// `Some(true)`: stop keeping freed pages. `Some(false)`: keep them as before.
    pub keep_nothing: Option<bool>,
    /// The level has changed to this one: tell the program.
    pub tell: Option<Level>,
    /// Say in one line that over 95 % of the limit are in use after the purge.
    pub say: bool,
    /// The bytes that may be allocated before the next reading.
    pub next: u64,
}

/// A purge is repeated when the bytes in use have grown by this percentage of the limit since the last purge.
const STEP: u64 = 2;
/// From this percentage of the limit on, a purge that is not in vain is made even if the purse is empty.
const EDGE: u64 = Level::Severe.percent();
/// A purge that gives back less than this percentage of the limit was in vain.
const LITTLE: u64 = 3;
/// After this many purges in vain in a row, the next is expected to help only if the bytes in use have fallen meanwhile.
const VAIN: u32 = 2;
/// If readings come close together, the distance between them grows: until they take at most 1/SHARE of the time, but to at most FARTHER
/// times the usual distance.
const SHARE: u64 = 50;
const FARTHER: u64 = 8;
/// The minimum and the maximum of bytes between two readings. A lowered limit is noticed after the maximum at the latest.
pub(super) const FEWEST: u64 = 64 << 10;
const MOST: u64 = 64 << 20;
/// The minimum time between two of the lines of [`Orders::say`], in nanoseconds.
const QUIET: u64 = 60_000_000_000;

/// What the budget remembers.
#[derive(Clone, Copy, Debug, Default)]
pub struct BudgetHistory {
    limit: u64,
    /// The level by the last reading, before or after a purge.
    level: Level,
    /// The level that was last reported to the program. It does not rise while a purge is due.
    told: Level,
    /// Whether the allocator was told not to keep freed pages.
    keeps_nothing: bool,
    /// The level of the last purge, and the minimum of bytes in use since then. Both fall when fewer bytes are in use, because later growth
    /// may be pages that a new purge can give back.
    purged_at: Level,
    after: u64,
    /// The number of purges in vain, one after the other.
    vain: u32,
    /// More than the limit was in use, and the process still runs: either the kernel does not kill the process at this limit, or
    /// purges do not help.
    over: bool,
    /// Whether the last purge asked every thread to give back what it keeps.
    everyone: bool,
    purse: Purse,
    /// Page faults at the last reading. Set only while freed pages are not kept.
    faults: Option<u64>,
    /// The time of the last reading, and the factor by which the distance between readings has grown.
    looked: u64,
    apart: u64,
    /// Whether the line of [`Orders::say`] was written for this limit.
    said: bool,
    said_at: Option<u64>,
}

impl BudgetHistory {
    /// No reading was made yet.
    pub const fn new() -> BudgetHistory {
        BudgetHistory {
            limit: 0,
            level: Level::Calm,
            told: Level::Calm,
            keeps_nothing: false,
            purged_at: Level::Calm,
            after: 0,
            vain: 0,
            over: false,
            everyone: false,
            purse: Purse::new(),
            faults: None,
            looked: 0,
            apart: 1,
            said: false,
            said_at: None,
        }
    }

    /// The level that was last reported to the program, which remained after the allocator gave everything back.
    pub fn told(&self) -> Level {
        self.told
    }

    /// The limit of the last reading; 0 without one.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Whether readings must include page faults. While freed pages are not kept, the extra page faults are the cost.
    pub fn asks_for_faults(&self) -> bool {
        self.keeps_nothing
    }

    /// Takes a reading, and returns orders.
    pub fn look(&mut self, reading: BudgetUsage) -> Orders {
        self.take(reading);
        self.purse.pay(reading.took);
        self.pay_faults(reading);
        let since = reading.now.saturating_sub(self.looked).max(1);
        self.apart = (self.apart * reading.took.saturating_mul(SHARE) / since).clamp(1, FARTHER);
        self.looked = reading.now;
        let is_due = self.is_due(reading);
        if is_due && self.may(reading) {
            let everyone = self.level >= Level::Severe;
            let keep_nothing = match self.keeps_nothing {
                false => (everyone && self.purse.is_full()).then_some(true),
                true => (!self.purse.has()).then_some(false),
            };
            self.everyone = everyone;
            return Orders { purge: true, everyone, keep_nothing, next: self.next(reading), ..Orders::default() };
        }
        self.settle(reading, !is_due)
    }

    /// Returns orders after a purge that began at `began`, if the reading after it failed. `before` is the reading before the purge, with
    /// the present time.
    pub fn purged_unread(&mut self, began: u64, before: BudgetUsage) -> Orders {
        self.ended_at(began, before);
        Orders { next: self.next(before), ..Orders::default() }
    }

    fn ended_at(&mut self, began: u64, BudgetUsage { used, now, .. }: BudgetUsage) {
        (self.purged_at, self.after, self.looked) = (self.level, used, now);
        self.purse.pay(now.saturating_sub(began));
    }

    /// Returns orders after a purge that began at `began` with `before` bytes in use. `reading` was made after the purge.
    pub fn purged(&mut self, began: u64, before: u64, reading: BudgetUsage) -> Orders {
        self.ended_at(began, reading);
        let given = before.saturating_sub(reading.used);
        self.purse.pay_pages(given);
        self.vain = if given < share(self.limit, LITTLE) { self.vain.saturating_add(1) } else { 0 };
        self.take(reading);
        let mut orders = self.settle(reading, true);
        let may = self.said_at.is_none_or(|said| reading.now.saturating_sub(said) >= QUIET);
        if reading.used >= share(self.limit, Level::Last.percent()) && self.limit > 0 && !self.said && may {
            (self.said, self.said_at, orders.say) = (true, Some(reading.now), true);
        }
        orders
    }

    /// Records that the allocator keeps no freed pages from now on (`nothing`), or keeps them again.
    pub fn keeps(&mut self, nothing: bool) {
        self.keeps_nothing = nothing;
        self.faults = None;
    }

    /// While freed pages are not kept, each page fault may be for a page that would otherwise have been kept.
    fn pay_faults(&mut self, BudgetUsage { faults, .. }: BudgetUsage) {
        if self.keeps_nothing {
            let before = self.faults.replace(faults).unwrap_or(faults);
            self.purse.pay_faults(faults.saturating_sub(before));
        }
    }

    fn take(&mut self, reading: BudgetUsage) {
        let limit = reading.limit.unwrap_or(0);
        if limit != self.limit {
            // The limit has changed: purges that were in vain may now help.
            (self.limit, self.purged_at, self.said) = (limit, Level::Calm, false);
            (self.vain, self.over) = (0, false);
        }
        self.purse.earn(reading.now);
        if self.everyone {
            // Since the last reading, threads have given this memory back, or the program has freed it.
            self.purse.pay_pages(self.after.saturating_sub(reading.used));
        }
        self.level = if limit == 0 { Level::Calm } else { self.level.moved(reading.ahead(), limit) };
        self.after = self.after.min(reading.used);
        self.purged_at = self.purged_at.min(self.level);
        self.over |= reading.used > limit;
        if self.level == Level::Calm {
            // Memory that is freed from here on may be kept pages again, which a purge can give back.
            (self.said, self.over, self.vain) = (false, false, 0);
        }
    }

    fn is_due(&self, reading: BudgetUsage) -> bool {
        let ahead = reading.ahead();
        if self.level == Level::Calm || ahead < share(self.limit, Level::High.percent()) {
            return false;
        }
        let step = share(self.limit, STEP).max(FEWEST);
        self.level > self.purged_at || ahead.saturating_sub(self.after) >= step
    }

    /// Whether a purge that is due may be made now.
    fn may(&self, reading: BudgetUsage) -> bool {
        self.purse.has() || (reading.ahead() >= share(self.limit, EDGE) && self.vain < VAIN && !self.over)
    }

    /// Orders without a purge: the settings, and the level to report to the program. The level rises only if `may_rise`: not while a purge
    /// is put off.
    fn settle(&mut self, reading: BudgetUsage, may_rise: bool) -> Orders {
        let back = self.keeps_nothing && (self.level == Level::Calm || !self.purse.has());
        let level = if self.limit == 0 { Level::Calm } else { self.told.moved(reading.used, self.limit) };
        let level = if may_rise { level } else { level.min(self.told) };
        let tell = (self.told != level).then_some(level);
        self.told = level;
        Orders { keep_nothing: back.then_some(false), tell, next: self.next(reading), ..Orders::default() }
    }

    /// Half of the distance to the next level or purge, in bytes: the program may touch all of the bytes that it allocates, or none.
    fn next(&self, BudgetUsage { used, more, .. }: BudgetUsage) -> u64 {
        // The block counts as used, however large it is: the program may touch it at once.
        let used = used.saturating_add(more);
        if self.limit == 0 {
            return MOST;
        }
        let levels = [Level::High, Level::Severe, Level::Last].map(|level| share(self.limit, level.percent()));
        let step = self.after.saturating_add(share(self.limit, STEP));
        // While purges are put off until the edge, levels below the edge need no reading.
        let edge = share(self.limit, EDGE);
        let from = if self.purse.has() { levels[0] } else { edge };
        let ahead = levels.into_iter().chain([step, edge]).filter(|bytes| *bytes > used && *bytes >= from);
        // With a small limit readings are closer together, but never so close that they dominate the program's time.
        let fewest = (self.limit / 512 * self.apart).clamp(FEWEST, MOST);
        let way = ahead.min().map_or(0, |bytes| bytes - used);
        (way / 2).clamp(fewest, MOST)
    }
}

#[cfg(test)]
#[path = "account_tests.rs"]
mod tests;
