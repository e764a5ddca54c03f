//! A lock that a forked child does not inherit. Several threads use its value, one at a time.
//!
//! If another thread holds a `Mutex` while the process forks, the `Mutex` stays locked in the child for ever: the thread
//! that would unlock it does not exist there. Allocators' statistics are read in such children too. A child of `vfork`
//! shares the memory, and waits for the lock like a thread.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::address_space;

/// A value, and the address space of the thread that holds the lock.
pub struct ForkLock<T> {
    /// The holder's address space; 0 if no thread holds the lock.
    holder: AtomicU32,
    /// The address space in which the value was used last, and the value.
    value: UnsafeCell<(u32, T)>,
}

// SAFETY: the value is reached by the holder alone, one thread at a time.
unsafe impl<T: Send> Sync for ForkLock<T> {}

impl<T> ForkLock<T> {
    /// An unlocked lock.
    pub const fn new(value: T) -> Self {
        ForkLock { holder: AtomicU32::new(0), value: UnsafeCell::new((0, value)) }
    }

    /// Waits for the lock, and calls `work` with the value. The second argument is true if the value was last used
    /// before a fork, or never: it may then be half written.
    pub fn with<R>(&self, work: impl FnOnce(&mut T, bool) -> R) -> R {
        self.with_number(address_space::number(), work)
    }

    /// Takes the lock until [`end`](Self::end). For handlers around a fork, so that no other thread holds the lock
    /// during the fork.
    pub fn begin(&self) {
        self.begin_as(address_space::number());
    }

    /// Frees the lock of [`begin`](Self::begin), in the parent and in the child.
    ///
    /// # Safety
    ///
    /// The calling thread, or the thread of the parent that forked, called `begin`.
    pub unsafe fn end(&self) {
        self.holder.store(0, Ordering::Release);
    }

    fn begin_as(&self, this: u32) {
        let mut seen = 0;
        // A lock that another address space holds is free for us: its threads use their own copy.
        while let Err(holder) = self.holder.compare_exchange(seen, this, Ordering::Acquire, Ordering::Relaxed) {
            seen = if holder == this { 0 } else { holder };
            std::thread::yield_now();
        }
    }

    fn with_number<R>(&self, this: u32, work: impl FnOnce(&mut T, bool) -> R) -> R {
        self.begin_as(this);
        let _free = Free(&self.holder);
        // SAFETY: this thread has just become the holder, and is until `_free` is dropped.
        let (last, value) = unsafe { &mut *self.value.get() };
        let strange = std::mem::replace(last, this) != this;
        work(value, strange)
    }
}

/// Frees the lock, also after a panic.
struct Free<'a>(&'a AtomicU32);

impl Drop for Free<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_taken_one_by_one() {
        let lock = ForkLock::new(0_u64);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..100).for_each(|_| lock.with(|value, _| *value += 1)));
            }
        });
        assert_eq!(lock.with(|value, _| *value), 400);
    }

    #[test]
    fn what_another_process_holds_is_taken_over_and_told() {
        let lock = ForkLock::new(7);
        assert!(lock.with_number(1, |_, strange| strange) && !lock.with_number(1, |_, strange| strange));
        lock.holder.store(1, Ordering::Relaxed); // a thread of the parent, at the time of the fork
        assert_eq!(lock.with_number(2, |value, strange| (*value, strange)), (7, true));
        assert_eq!(lock.with_number(2, |value, strange| (*value, strange)), (7, false));
    }

    #[test]
    #[cfg(not(miri))]
    fn a_child_that_shares_the_memory_waits_for_its_turn() {
        use allocanary_testing::vforked::in_vforked_child;
        use std::sync::atomic::AtomicBool;

        let lock = ForkLock::new(0_u32);
        let [is_held, is_tried, is_seen] = [const { AtomicBool::new(false) }; 3];
        std::thread::scope(|scope| {
            scope.spawn(|| {
                lock.with(|value, _| {
                    is_held.store(true, Ordering::SeqCst);
                    while !is_tried.load(Ordering::SeqCst) {
                        std::thread::yield_now();
                    }
                    (0..1000).for_each(|_| std::thread::yield_now());
                    is_held.store(false, Ordering::SeqCst);
                    *value += 1;
                });
            });
            while !is_held.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            in_vforked_child(|| {
                is_tried.store(true, Ordering::SeqCst);
                lock.with(|value, strange| {
                    is_seen.store(is_held.load(Ordering::SeqCst) || strange, Ordering::SeqCst);
                    *value += 1;
                });
            });
        });
        assert!(
            !is_seen.load(Ordering::SeqCst),
            "it came in while another thread was there, or took the value for a strange one"
        );
        assert_eq!(lock.with(|value, strange| (*value, strange)), (2, false));
    }

    #[test]
    fn a_turn_ends_when_its_work_panics() {
        let lock = ForkLock::new(1);
        let work = std::panic::AssertUnwindSafe(|| lock.with(|_, _| panic!("on purpose")));
        assert!(std::panic::catch_unwind(work).is_err());
        assert_eq!(lock.with(|value, _| *value), 1);
    }
}
