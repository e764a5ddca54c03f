//! The chunks of a window. In: a thread that needs one, or is done with one. Out: the one that it gets.

use std::sync::atomic::{Ordering::Relaxed, Ordering::SeqCst};

use super::{Process, SAMPLE_NS, populate};
use crate::format::{HEADER, at};

/// Length of a chunk of a window.
pub(super) const RING: usize = 32 << 10;
/// Chunks that are looked at before the file grows.
const LOOKS: u64 = 8;

/// Where a chunk's header says when it was closed.
const CLOSED: usize = 24;

impl Process {
    /// Hands out a chunk of the window: one that was closed longer ago than that, else a new one, else, at the maximum
    /// size, any that is closed.
    pub(in crate::writer) fn ring_chunk(&self, now: u64) -> Option<(u64, *mut u8, usize)> {
        if self.is_stopped() {
            return None;
        }
        let window = u128::from(self.window.load(Relaxed)) * u128::from(self.sample_ticks.load(Relaxed));
        let before = now.saturating_sub((window / u128::from(SAMPLE_NS)).min(u128::from(u64::MAX)) as u64);
        let (used, limit) = (self.long(at::USED), self.limit.load(Relaxed));
        let mut offset = used.load(SeqCst);
        if let Some(old) = self.old_chunk(offset, before, LOOKS) {
            return Some(old);
        }
        while offset + RING as u64 <= limit {
            match used.compare_exchange(offset, offset + RING as u64, SeqCst, SeqCst) {
                Ok(_) => {
                    // SAFETY: the range lies within the mapping, and is this thread's alone.
                    let start = unsafe { self.base.load(Relaxed).add(offset as usize) };
                    if !populate(start, RING) {
                        self.stop(3);
                        return None;
                    }
                    return Some((offset, start, RING));
                }
                Err(now) => offset = now,
            }
        }
        let any = self.old_chunk(offset, now, offset / RING as u64);
        if any.is_none() {
            self.stop(2);
        }
        any
    }

    /// A chunk that was closed at `before` or earlier, of the next ones that the hand comes to; emptied.
    fn old_chunk(&self, used: u64, before: u64, looks: u64) -> Option<(u64, *mut u8, usize)> {
        let made = (used - HEADER as u64) / RING as u64;
        for _ in 0..looks.min(made) {
            // A place, not a count: the remainder of a count by a growing number would stay at the same places.
            let next = |place: u64| Some(if place + 1 < made { place + 1 } else { 0 });
            let place = self.hand.fetch_update(SeqCst, SeqCst, next).unwrap_or(0);
            let offset = HEADER as u64 + place.min(made - 1) * RING as u64;
            let closed = self.long(offset as usize + CLOSED);
            let at = closed.load(SeqCst);
            if at == 0 || at > before || closed.compare_exchange(at, 0, SeqCst, SeqCst).is_err() {
                continue;
            }
            self.long(at::HORIZON).fetch_max(at, SeqCst);
            // The magic goes first: a reader of a killed program skips a chunk that is half erased.
            self.word(offset as usize).store(0, SeqCst);
            // SAFETY: the range lies within the mapping, and the exchange above made it this thread's alone.
            let start = unsafe {
                let start = self.base.load(Relaxed).add(offset as usize);
                start.write_bytes(0, RING);
                start
            };
            return Some((offset, start, RING));
        }
        None
    }

    /// The thread is done with a chunk of the window.
    pub(in crate::writer) fn close_chunk(&self, start: *mut u8, now: u64) {
        self.long(self.offset(start) as usize + CLOSED).store(now.max(1), SeqCst);
    }
}
