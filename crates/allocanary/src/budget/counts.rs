//! What a budget has done so far. In: each event. Out: counts, for gauges and for the proof that a preload writes.

use std::sync::atomic::{AtomicU64, Ordering};

use super::level::Level;

/// The counts of this process.
#[derive(Debug, Default)]
pub struct BudgetCounters {
    /// Readings that were made.
    pub looks: AtomicU64,
    /// Readings that failed. The previous limit and level stay.
    pub unread: AtomicU64,
    /// How often a new level was reported to the program.
    pub levels: AtomicU64,
    /// Purges: how often the pages that the allocator keeps were given back.
    pub purges: AtomicU64,
    /// How often a thread gave back the memory that it kept itself.
    pub threads: AtomicU64,
    /// The time that all purges took, in nanoseconds.
    pub nanos: AtomicU64,
    /// The limit of the last reading in bytes; 0 means no limit.
    pub limit: AtomicU64,
    level: AtomicU64,
}

impl BudgetCounters {
    pub(super) const fn new() -> BudgetCounters {
        BudgetCounters {
            looks: AtomicU64::new(0),
            unread: AtomicU64::new(0),
            levels: AtomicU64::new(0),
            purges: AtomicU64::new(0),
            threads: AtomicU64::new(0),
            nanos: AtomicU64::new(0),
            limit: AtomicU64::new(0),
            level: AtomicU64::new(0),
        }
    }

    /// The present level.
    pub fn level(&self) -> Level {
        let level = self.level.load(Ordering::Relaxed);
        [Level::Calm, Level::High, Level::Severe, Level::Last]
            .into_iter()
            .find(|one| *one as u64 == level)
            .unwrap_or_default()
    }

    pub(super) fn tell(&self, level: Level) {
        self.level.store(level as u64, Ordering::Relaxed);
        self.levels.fetch_add(1, Ordering::Relaxed);
    }

    /// Sets the counts to zero. Runs in the child of a fork, which has one thread.
    pub(super) fn begin_anew(&self) {
        for count in [&self.looks, &self.unread, &self.levels, &self.purges, &self.threads, &self.nanos] {
            count.store(0, Ordering::Relaxed);
        }
    }
}
