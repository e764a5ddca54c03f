//! A list of free numbers above 0, without a lock. Each number is given out once.
//!
//! The owner of the numbered items also keeps, for each item, the next number in the list.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

/// The low half is the first free number (0: none). The high half counts changes: if the first number was taken and put
/// back while a thread did not run, the thread sees the change (ABA problem).
#[derive(Default)]
pub struct FreeList(AtomicU64);

impl FreeList {
    /// An empty list; all its bytes are zero.
    pub const fn new() -> Self {
        FreeList(AtomicU64::new(0))
    }

    /// Takes a number out; `next` gives each number's successor.
    pub fn pop<'a>(&self, next: impl Fn(u64) -> Option<&'a AtomicU64>) -> Option<u64> {
        let mut head = self.0.load(Acquire);
        loop {
            let number = head & u64::from(u32::MAX);
            if number == 0 {
                return None;
            }
            // If another thread has taken the number since then, the exchange fails and the value read here is
            // discarded.
            let after = next(number)?.load(Relaxed) & u64::from(u32::MAX);
            match self.0.compare_exchange_weak(head, changed(head) | after, AcqRel, Acquire) {
                Ok(_) => return Some(number),
                Err(now) => head = now,
            }
        }
    }

    /// Puts a number in; `next` stores its successor.
    pub fn push(&self, number: u64, next: &AtomicU64) {
        let mut head = self.0.load(Relaxed);
        loop {
            next.store(head & u64::from(u32::MAX), Relaxed);
            match self.0.compare_exchange_weak(head, changed(head) | number, Release, Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }
}

fn changed(head: u64) -> u64 {
    (head >> 32).wrapping_add(1) << 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn no_number_has_two_owners() {
        const NUMBERS: u64 = 4;
        let turns = if cfg!(miri) { 50 } else { 20_000 };
        let list = FreeList::new();
        let next: Vec<AtomicU64> = (0..=NUMBERS).map(|_| AtomicU64::new(0)).collect();
        let taken: Vec<AtomicBool> = (0..=NUMBERS).map(|_| AtomicBool::new(false)).collect();
        (1..=NUMBERS).for_each(|number| list.push(number, &next[number as usize]));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..turns {
                        let Some(number) = list.pop(|number| next.get(number as usize)) else { continue };
                        assert!(!taken[number as usize].swap(true, Relaxed), "{number} was taken");
                        taken[number as usize].store(false, Relaxed);
                        list.push(number, &next[number as usize]);
                    }
                });
            }
        });
        let left: Vec<u64> = std::iter::from_fn(|| list.pop(|number| next.get(number as usize))).collect();
        assert_eq!(left.len() as u64, NUMBERS);
    }
}
