//! Counts how often threads of this process gave memory back. In: a call each time. Out: a count for the proof.

use std::sync::atomic::{AtomicU64, Ordering};

static COUNT: AtomicU64 = AtomicU64::new(0);

pub(crate) fn count() {
    COUNT.fetch_add(1, Ordering::Relaxed);
}

pub(crate) fn times() -> u64 {
    COUNT.load(Ordering::Relaxed)
}

/// Resets the count in a fork's child, which has one thread.
pub(crate) fn begin_anew() {
    COUNT.store(0, Ordering::Relaxed);
}
