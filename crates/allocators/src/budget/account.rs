//! What a memory budget decides. In: readings (the limit, what is in use, the time), and how a purge went. Out: orders. Reads
//! nothing, calls nothing.
//!
//! Who asks only where memory grows never asks again while nothing grows: so a purge is worth its time only if more is in use
//! than after the last one. Where the limit is below what the program holds, each purge is in vain: it is repeated only for each
//! further 2 % of the limit.
//!
//! What a purge costs is mostly paid later: each page that the program takes again is a page fault. Near the limit that was nine
//! tenths of a program's time. So all that is done has a purse: 5 % of a processor. While it is empty, pages are
//! given back only from 97 % of the limit on, and only while that holds the limit and the last two purges were not in vain: then they are
//! what keeps the kernel from killing the process.

use super::level::{Level, share};
use super::purse::Purse;

/// A reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// The limit in bytes; `None` if there is none.
    pub limit: Option<u64>,
    /// The bytes in use.
    pub used: u64,
    /// The bytes of a large block that is about to be used. It may stay untouched, or not be had at all: so it can only make a purge
    /// due, and the program is told nothing of it.
    pub more: u64,
    /// Nanoseconds of a clock that only goes forward.
    pub now: u64,
    /// How many of them the reading took.
    pub took: u64,
    /// Page faults of the process so far; 0 where nobody asks: see [`Account::asks_for_faults`].
    pub faults: u64,
}

impl Usage {
    /// What is in use when the block is. A block above the limit is none that the program can use as a whole.
    fn ahead(&self) -> u64 {
        let counts = self.limit.is_some_and(|limit| self.more <= limit);
        self.used.saturating_add(if counts { self.more } else { 0 })
    }
}

/// What is to be done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Orders {
    /// Give back what the allocator keeps. [`Account::purged`] is to be called afterwards.
    pub purge: bool,
    /// Every thread gives back what it keeps.
    pub everyone: bool,
    /// Do not keep freed pages any more (`Some(true)`), or again as before (`Some(false)`).
    pub keep_nothing: Option<bool>,
    /// The level is this one now: tell the program.
    pub tell: Option<Level>,
    /// Say in one line that what is in use after all was given back is this near to the limit.
    pub say: bool,
    /// So many bytes may be allocated before the next reading.
    pub next: u64,
}

/// A purge is repeated where this much more of the limit is in use than after the last one, in percent.
const STEP: u64 = 2;
/// From this share of the limit on a purge that gives something back is not put off, in percent.
const EDGE: u64 = 97;
/// A purge that gives back less than this share of the limit was in vain, in percent: from the edge on there is as much room.
const LITTLE: u64 = 100 - EDGE;
/// So many in a row, and a purge is not expected to help.
const VAIN: u32 = 2;
/// Readings that come close together take at most one part of this many of the time; but they are at most so many times as far apart.
const SHARE: u64 = 50;
const FARTHER: u64 = 8;
/// The fewest and the most bytes between two readings. A limit that was lowered is seen after the most.
pub(super) const FEWEST: u64 = 64 << 10;
const MOST: u64 = 64 << 20;
/// The time between two lines, in nanoseconds.
const QUIET: u64 = 60_000_000_000;

/// What a budget knows of the past.
#[derive(Clone, Copy, Debug, Default)]
pub struct Account {
    limit: u64,
    /// The highest level of late, with what a purge gave back.
    level: Level,
    /// What the program was told, which knows nothing of what a purge gave back.
    told: Level,
    /// Whether freed pages are not kept.
    keeps_nothing: bool,
    /// The level of the last purge, and the least that has been in use since. Both fall with what is in use: what grows from there
    /// on may be kept pages again.
    purged_at: Level,
    after: u64,
    /// Purges in a row that gave little back.
    vain: u32,
    /// More than the limit was in use, and the process lives: the kernel does not kill it there, or purges do not help.
    over: bool,
    /// Threads give back what they keep, since the last purge.
    everyone: bool,
    purse: Purse,
    /// Page faults at the last reading while freed pages are not kept.
    faults: Option<u64>,
    /// The time of the last reading, and how many times as far apart as the fewest bytes readings are.
    looked: u64,
    apart: u64,
    /// For this limit it was said that what is left is alive.
    said: bool,
    said_at: Option<u64>,
}

impl Account {
    /// Nothing is known yet.
    pub const fn new() -> Account {
        Account {
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

    /// The level that the program was told last: what is left of the pressure after all was given back.
    pub fn told(&self) -> Level {
        self.told
    }

    /// The limit of the last reading; 0 without one.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Whether page faults have to be read: they are what it costs that freed pages are not kept.
    pub fn asks_for_faults(&self) -> bool {
        self.keeps_nothing
    }

    /// What a reading calls for.
    pub fn look(&mut self, reading: Usage) -> Orders {
        self.take(reading);
        self.purse.pay(reading.took);
        self.pay_faults(reading);
        let since = reading.now.saturating_sub(self.looked).max(1);
        self.apart = (self.apart * reading.took.saturating_mul(SHARE) / since).clamp(1, FARTHER);
        self.looked = reading.now;
        let is_due = self.is_due(reading);
        if is_due && self.may(reading) {
            let everyone = self.level >= Level::Severe && self.purse.has();
            let keep_nothing = match self.keeps_nothing {
                false => (everyone && self.purse.is_full()).then_some(true),
                true => (!self.purse.has()).then_some(false),
            };
            self.everyone = everyone;
            return Orders { purge: true, everyone, keep_nothing, next: self.next(reading), ..Orders::default() };
        }
        self.settle(reading, !is_due)
    }

    /// What is to be done after a purge that `began` at that time, and that could not be followed by a reading. `before` is the one
    /// before it, at the time now.
    pub fn purged_unread(&mut self, began: u64, before: Usage) -> Orders {
        self.ended_at(began, before);
        Orders { next: self.next(before), ..Orders::default() }
    }

    fn ended_at(&mut self, began: u64, Usage { used, now, .. }: Usage) {
        (self.purged_at, self.after, self.looked) = (self.level, used, now);
        self.purse.pay(now.saturating_sub(began));
    }

    /// What is to be done after a purge that `began` at that time, with that many bytes in use. What it gave back is in the `reading`.
    pub fn purged(&mut self, began: u64, before: u64, reading: Usage) -> Orders {
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

    /// Freed pages are kept, or are not.
    pub fn keeps(&mut self, nothing: bool) {
        self.keeps_nothing = nothing;
        self.faults = None;
    }

    /// While freed pages are not kept, each page fault may be one of a page that would have been.
    fn pay_faults(&mut self, Usage { faults, .. }: Usage) {
        if self.keeps_nothing {
            let before = self.faults.replace(faults).unwrap_or(faults);
            self.purse.pay_faults(faults.saturating_sub(before));
        }
    }

    fn take(&mut self, reading: Usage) {
        let limit = reading.limit.unwrap_or(0);
        if limit != self.limit {
            // Another limit: what was in vain may be so no more.
            (self.limit, self.purged_at, self.said) = (limit, Level::Calm, false);
            (self.vain, self.over) = (0, false);
        }
        self.purse.earn(reading.now);
        if self.everyone {
            // Threads have given it back, or the program has freed it.
            self.purse.pay_pages(self.after.saturating_sub(reading.used));
        }
        self.level = if limit == 0 { Level::Calm } else { self.level.moved(reading.ahead(), limit) };
        self.after = self.after.min(reading.used);
        self.purged_at = self.purged_at.min(self.level);
        self.over |= reading.used > limit;
        if self.level == Level::Calm {
            (self.said, self.over) = (false, false);
        }
    }

    fn is_due(&self, reading: Usage) -> bool {
        let ahead = reading.ahead();
        if self.level == Level::Calm || ahead < share(self.limit, Level::High.percent()) {
            return false;
        }
        let step = share(self.limit, STEP).max(FEWEST);
        self.level > self.purged_at || ahead.saturating_sub(self.after) >= step
    }

    /// Whether a purge that is due may be made now.
    fn may(&self, reading: Usage) -> bool {
        self.purse.has() || (reading.ahead() >= share(self.limit, EDGE) && self.vain < VAIN && !self.over)
    }

    /// Orders where nothing is to be purged: the settings, and what the program is told. A higher level only if `may_rise`: not while
    /// a purge is put off.
    fn settle(&mut self, reading: Usage, may_rise: bool) -> Orders {
        let back = self.keeps_nothing && (self.level == Level::Calm || !self.purse.has());
        let level = if self.limit == 0 { Level::Calm } else { self.told.moved(reading.used, self.limit) };
        let level = if may_rise { level } else { level.min(self.told) };
        let tell = (self.told != level).then_some(level);
        self.told = level;
        Orders { keep_nothing: back.then_some(false), tell, next: self.next(reading), ..Orders::default() }
    }

    /// Half the way to where something may be due: bytes that are allocated may all be touched, or none of them.
    fn next(&self, Usage { used, more, .. }: Usage) -> u64 {
        // With the block, however large: it may be touched at once.
        let used = used.saturating_add(more);
        if self.limit == 0 {
            return MOST;
        }
        let levels = [Level::High, Level::Severe, Level::Last].map(|level| share(self.limit, level.percent()));
        let step = self.after.saturating_add(share(self.limit, STEP));
        // What is put off until the edge is not looked for before.
        let edge = share(self.limit, EDGE);
        let from = if self.purse.has() { levels[0] } else { edge };
        let ahead = levels.into_iter().chain([step, edge]).filter(|bytes| *bytes > used && *bytes >= from);
        // With a small limit readings are more often, and never so often that they are what the program does.
        let fewest = (self.limit / 512 * self.apart).clamp(FEWEST, MOST);
        let way = ahead.min().map_or(0, |bytes| bytes - used);
        (way / 2).clamp(fewest, MOST)
    }
}

#[cfg(test)]
#[path = "account_tests.rs"]
mod tests;
