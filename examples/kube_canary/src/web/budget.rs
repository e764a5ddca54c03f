//! The limit for the memory of all pages together. In: pages that grow. Out: whether a page may grow. Every byte of a page counts from its
//! start, so the limit also holds for pages that are written at the same time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes for pages of one sort.
#[derive(Debug)]
pub(super) struct Budget {
    most: usize,
    held: AtomicUsize,
}

impl Budget {
    /// A budget of `most` bytes.
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Budget { most, held: AtomicUsize::new(0) })
    }

    /// Whether pages hold more than half of it.
    pub(super) fn is_scarce(&self) -> bool {
        self.held.load(Ordering::Relaxed) > self.most / 2
    }

    /// The share of a page that begins.
    pub(super) fn share(self: &Arc<Self>) -> Share {
        Share { budget: self.clone(), bytes: 0 }
    }
}

/// One page's part of a budget, until it is dropped.
#[derive(Debug)]
pub(super) struct Share {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Share {
    /// Grows the share to `to` bytes. If the budget has not enough left, returns false and changes nothing.
    pub(super) fn grow(&mut self, to: usize) -> bool {
        let more = to.saturating_sub(self.bytes);
        let room = |held: usize| held.checked_add(more).filter(|held| *held <= self.budget.most);
        let grown = self.budget.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room).is_ok();
        self.bytes += if grown { more } else { 0 };
        grown
    }

    /// Whether `bytes` exceed the whole budget.
    pub(super) fn can_never_be(&self, bytes: usize) -> bool {
        bytes > self.budget.most
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
