//! A thread's record of its returns of memory. In: counts and clocks. Out: whether a return is due.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A return is due only after the thread has allocated and freed this many bytes since the last, if the allocator
/// counts them. After fewer bytes the thread keeps no more than this.
const ENOUGH: u64 = 16 << 10;

/// A thread that may return memory before each wait spends at most 1/SHARE of its time on returns.
const SHARE: u64 = 100;

/// A thread's record: when it last returned memory, and what it had allocated and freed by then.
#[derive(Debug)]
pub struct IdleThread {
    nanos: Cell<u64>,
    bytes: Cell<u64>,
    /// Whether a return may be due without further traffic: other threads may have freed blocks for this one.
    again: Cell<bool>,
    /// The thread's processor time at the start of the last return, and the duration of that return, in nanoseconds.
    began: Cell<u64>,
    cost: Cell<u64>,
    /// The allocator's counters of the bytes that this thread has allocated, and of those that it has freed.
    counters: Cell<Option<[&'static AtomicU64; 2]>>,
    /// Makes the type not `Send`: the counters are in that thread's own memory.
    here: PhantomData<*const ()>,
}

impl IdleThread {
    /// The record of a thread that never returned memory.
    pub const fn new() -> Self {
        IdleThread {
            nanos: Cell::new(0),
            bytes: Cell::new(0),
            again: Cell::new(false),
            began: Cell::new(0),
            cost: Cell::new(0),
            counters: Cell::new(None),
            here: PhantomData,
        }
    }

    /// The bytes that this thread has allocated and freed so far. The first call finds the counters by `find`; `None`
    /// if there are none.
    #[inline]
    pub fn bytes(&self, find: impl FnOnce() -> Option<[&'static AtomicU64; 2]>) -> Option<u64> {
        let counters = match self.counters.get() {
            Some(counters) => counters,
            None => {
                let found = find()?;
                self.counters.set(Some(found));
                found
            }
        };
        let [allocated, freed] = counters.map(|counter| counter.load(Ordering::Relaxed));
        Some(allocated.wrapping_add(freed))
    }

    /// Whether a return is due: if `bytes` shows enough traffic since the last return, and if `every` has passed, or
    /// more after an expensive return. Without counters (`None`) traffic does not matter. If a return is due, it begins
    /// now and lasts until [`end`](Self::end). If `every` is zero, one more return is due without traffic, for blocks
    /// that other threads have freed since.
    #[inline]
    pub fn is_due(&self, every: Duration, bytes: Option<u64>) -> bool {
        let before = self.bytes.get();
        let bytes = bytes.unwrap_or(before.wrapping_add(ENOUGH));
        if bytes.wrapping_sub(before) >= ENOUGH {
            let is_due = self.has_passed(every, bytes);
            self.again.set(is_due || self.again.get());
            return is_due;
        }
        every.is_zero() && self.again.take() && self.has_passed(every, bytes)
    }

    #[inline]
    fn has_passed(&self, every: Duration, bytes: u64) -> bool {
        let now = nanos(libc::CLOCK_MONOTONIC_COARSE);
        // A thread's first return is always due.
        let last = self.nanos.get();
        let passed = u128::from(now.saturating_sub(last));
        let dear = if every.is_zero() { 0 } else { self.cost.get().saturating_mul(SHARE) };
        if every == Duration::MAX || last > 0 && passed < every.as_nanos().max(u128::from(dear)) {
            return false;
        }
        self.began.set(nanos(libc::CLOCK_THREAD_CPUTIME_ID));
        self.nanos.set(now);
        self.bytes.set(bytes);
        true
    }

    /// Ends the return that [`is_due`](Self::is_due) began.
    #[inline]
    pub fn end(&self) {
        self.cost.set(nanos(libc::CLOCK_THREAD_CPUTIME_ID).saturating_sub(self.began.get()));
    }
}

impl Default for IdleThread {
    fn default() -> Self {
        Self::new()
    }
}

/// A clock's time in nanoseconds. The coarse clock shows the time of the kernel's last tick, 1 to 10 ms ago. Reading it
/// needs neither a system call nor the processor's own clock.
#[inline]
fn nanos(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_due_when_it_has_done_enough_and_time_has_passed() {
        let hour = Duration::from_secs(3600);
        let thread = IdleThread::new();
        assert!(!thread.is_due(Duration::ZERO, Some(ENOUGH - 1)));
        assert!(thread.is_due(hour, Some(ENOUGH)), "the first time does not wait");
        assert!(!thread.is_due(hour, Some(ENOUGH * 2 - 1)));
        assert!(thread.is_due(Duration::ZERO, Some(ENOUGH)), "once more for what others have freed");
        assert!(!thread.is_due(Duration::ZERO, Some(ENOUGH * 2 - 1)), "and not a third time");
        assert!(!thread.is_due(hour, Some(ENOUGH * 2)));
        assert!(thread.is_due(Duration::ZERO, Some(ENOUGH * 2)));
        assert!(!thread.is_due(hour, None) && thread.is_due(Duration::ZERO, None), "what is not known does not count");
        assert!(!IdleThread::new().is_due(Duration::MAX, Some(u64::MAX)), "never");
    }

    #[test]
    fn what_was_dear_is_done_less_often() {
        let thread = IdleThread::new();
        assert!(thread.is_due(Duration::from_nanos(1), None));
        thread.end();
        assert!(thread.cost.get() > 0, "processor time was measured");
        thread.cost.set(u64::MAX / SHARE);
        assert!(!thread.is_due(Duration::from_nanos(1), None), "not before a hundred times what it took");
        assert!(thread.is_due(Duration::ZERO, None), "who waits twice has waited already");
    }

    #[test]
    fn counters_are_looked_for_once_and_add_up() {
        static COUNTERS: [AtomicU64; 2] = [AtomicU64::new(3), AtomicU64::new(4)];
        let thread = IdleThread::new();
        assert_eq!(thread.bytes(|| None), None);
        assert_eq!(thread.bytes(|| Some([&COUNTERS[0], &COUNTERS[1]])), Some(7));
        COUNTERS[1].store(u64::MAX, Ordering::Relaxed);
        assert_eq!(thread.bytes(|| panic!("they are known")), Some(2), "a sum that wraps around is one");
    }
}
