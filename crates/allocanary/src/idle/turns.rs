//! Work that threads share. In: requests. Out: one thread at a time serves each request, and no thread waits.

use std::sync::atomic::{AtomicU64, Ordering};

use allocanary_sys::address_space;

/// Work that one thread at a time does for all. A thread that requests it during the work does not wait: the working
/// thread then does it once more.
#[derive(Debug, Default)]
pub struct Turns {
    /// The address space of the working thread in the upper half, and the number of requests in the lower half; 0 if no
    /// thread works.
    asked: AtomicU64,
}

/// After this many rounds the working thread stops, even if there are further requests: it has other work to do. The
/// next call serves them.
const MOST_ROUNDS: u32 = 16;

impl Turns {
    /// Nobody has requested the work yet.
    pub const fn new() -> Self {
        Turns { asked: AtomicU64::new(0) }
    }

    /// Does `work`, or makes the working thread do it once more.
    #[inline]
    pub fn take(&self, work: impl FnMut()) {
        self.take_as(address_space::number(), work);
    }

    fn take_as(&self, this: u32, mut work: impl FnMut()) {
        let first = u64::from(this) << 32 | 1;
        let mut seen = self.asked.load(Ordering::Acquire);
        loop {
            // The work began in another address space, before a fork. Its thread does not exist in this process.
            let another = seen >> 32 == u64::from(this) && seen as u32 > 0;
            let next = if another { seen.wrapping_add(1) } else { first };
            match self.asked.compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) if another => return,
                Ok(_) => break,
                Err(found) => seen = found,
            }
        }
        let mut seen = first;
        for round in 1.. {
            work();
            match self.asked.compare_exchange(seen, 0, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                Err(found) if round < MOST_ROUNDS => seen = found,
                Err(_) => return self.asked.store(0, Ordering::Release),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_while_work_is_done_does_not_wait_and_it_is_done_again() {
        let (turns, mut done) = (Turns::new(), 0);
        turns.take(|| {
            done += 1;
            if done == 1 {
                turns.take(|| panic!("another is at it"));
                turns.take(|| panic!("another is at it"));
            }
        });
        assert_eq!(done, 2, "two that asked meanwhile are served by one more round");
        turns.take(|| done += 1);
        assert_eq!(done, 3);
    }

    #[test]
    fn nobody_works_for_others_for_ever() {
        let (turns, mut done) = (Turns::new(), 0);
        turns.take(|| {
            done += 1;
            turns.take(|| panic!("another is at it"));
        });
        assert_eq!(done, MOST_ROUNDS);
        turns.take(|| done += 1);
        assert_eq!(done, MOST_ROUNDS + 1, "the turn was left free");
    }

    #[test]
    fn what_another_process_began_is_begun_anew() {
        let (turns, mut done) = (Turns::new(), 0);
        turns.asked.store(1 << 32 | 3, Ordering::SeqCst); // a thread of the parent, at the time of the fork
        turns.take_as(2, || done += 1);
        assert_eq!(done, 1);
    }

    #[test]
    fn no_request_is_lost_among_threads() {
        let (turns, wanted, done) = (Turns::new(), AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..if cfg!(miri) { 20 } else { 2000 } {
                        wanted.fetch_add(1, Ordering::SeqCst);
                        turns.take(|| done.store(wanted.load(Ordering::SeqCst), Ordering::SeqCst));
                    }
                });
            }
        });
        // The next thread serves the requests that a busy thread left.
        turns.take(|| done.store(wanted.load(Ordering::SeqCst), Ordering::SeqCst));
        assert_eq!(done.into_inner(), wanted.into_inner());
        assert_eq!(turns.asked.into_inner(), 0, "nobody is left at work");
    }
}
