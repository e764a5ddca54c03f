//! A queue of numbers for all threads, without a lock. In: numbers. Out: the number that was added first.
//!
//! A fork does not inherit this memory, and RssAnon does not include it.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

/// A queue; all zeros is a queue without memory.
#[repr(C)]
pub(super) struct Queue {
    /// Each added number gets a ticket: 0, 1, 2 and so on. The lower half of a slot is a number, and the upper half is
    /// its ticket plus 1 ([`mark`]). The number is valid once its ticket is there.
    slots: AtomicPtr<AtomicU64>,
    length: AtomicU64,
    /// The ticket of the first number, and the ticket of the next number that is added.
    head: AtomicU64,
    tail: AtomicU64,
}

/// The upper half of a slot with this ticket.
const fn mark(ticket: u64) -> u64 {
    (ticket + 1) << 32
}

impl Queue {
    /// Maps memory for `length` numbers, each below 2^32. Returns false if there is no memory.
    pub(super) fn map(&self, length: u64) -> bool {
        let bytes = length.max(1) as usize * size_of::<AtomicU64>();
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping of no file.
        let slots = unsafe { libc::mmap(null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        if slots == libc::MAP_FAILED {
            return false;
        }
        // SAFETY: our own mapping of that length.
        unsafe { libc::madvise(slots, bytes, libc::MADV_DONTFORK) };
        self.length.store(length.max(1), SeqCst);
        self.slots.store(slots.cast(), SeqCst);
        true
    }

    fn slot(&self, ticket: u64) -> &AtomicU64 {
        let at = (ticket % self.length.load(Relaxed)) as usize;
        // SAFETY: the mapping has that many slots, zeros at first, and lives as long as the process records.
        unsafe { &*self.slots.load(Relaxed).add(at) }
    }

    /// Adds a number that is not in the queue. There are never more than `length`, so the slot is free.
    pub(super) fn add(&self, number: u64) {
        let ticket = self.tail.fetch_add(1, SeqCst);
        self.slot(ticket).store(mark(ticket) | number, SeqCst);
    }

    /// The first number and its ticket. `None` if the queue is empty, and while the first number is being added.
    pub(super) fn first(&self) -> Option<(u64, u64)> {
        loop {
            let ticket = self.head.load(SeqCst);
            let found = self.slot(ticket).load(SeqCst);
            if found & !0xFFFF_FFFF == mark(ticket) {
                return Some((ticket, found & 0xFFFF_FFFF));
            }
            if self.head.load(SeqCst) == ticket {
                return None;
            }
        }
    }

    /// Takes the first number, which has this ticket. Returns false if another thread was faster.
    pub(super) fn take(&self, ticket: u64) -> bool {
        self.head.compare_exchange(ticket, ticket + 1, SeqCst, SeqCst).is_ok()
    }
}
