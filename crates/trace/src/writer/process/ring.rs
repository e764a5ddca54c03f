//! The chunks of a window. In: a thread that needs one, or is done with one. Out: the one that it gets.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use super::{Process, SAMPLE_NS, populate};
use crate::format::{HEADER, at};

/// Length of a chunk of a window.
pub(super) const RING: usize = 32 << 10;

/// Where a chunk's header says when it was closed.
const CLOSED: usize = 24;

impl Process {
    /// Hands out a chunk of the window: the one that was closed first if that was longer ago than the window, else a new
    /// one, else, at the maximum size, the one that was closed first. None where all are being written: there may be one
    /// later.
    pub(in crate::writer) fn ring_chunk(&self, now: u64) -> Option<(u64, *mut u8, usize)> {
        if self.is_stopped() {
            return None;
        }
        let window = u128::from(self.window.load(Relaxed)) * u128::from(self.sample_ticks.load(Relaxed));
        let before = now.saturating_sub((window / u128::from(SAMPLE_NS)).min(u128::from(u64::MAX)) as u64);
        let (used, limit) = (self.long(at::USED), self.limit.load(Relaxed));
        // Another turn only where another thread was faster.
        loop {
            let offset = used.load(SeqCst);
            let may_grow = offset + RING as u64 <= limit;
            match self.queue.first() {
                Some((ticket, place)) if !may_grow || self.closed(place).load(SeqCst) <= before => {
                    if self.queue.take(ticket) {
                        return Some(self.empty(place));
                    }
                }
                None if !may_grow => return None,
                _ => {
                    if used.compare_exchange(offset, offset + RING as u64, SeqCst, SeqCst).is_ok() {
                        // SAFETY: the range lies within the mapping, and is this thread's alone.
                        let start = unsafe { self.base.load(Relaxed).add(offset as usize) };
                        if !populate(start, RING) {
                            self.stop(3);
                            return None;
                        }
                        return Some((offset, start, RING));
                    }
                }
            }
        }
    }

    /// When the chunk at a place was closed; 0 while it is written.
    fn closed(&self, place: u64) -> &AtomicU64 {
        self.long(HEADER + place as usize * RING + CLOSED)
    }

    /// Empties a chunk that is this thread's alone: what it had is no longer in the window.
    fn empty(&self, place: u64) -> (u64, *mut u8, usize) {
        self.long(at::HORIZON).fetch_max(self.closed(place).load(SeqCst), SeqCst);
        let offset = HEADER as u64 + place * RING as u64;
        // The magic goes first: a reader of a killed program skips a chunk that is half erased.
        self.word(offset as usize).store(0, SeqCst);
        // SAFETY: the range lies within the mapping, and the caller says that it is this thread's alone.
        let start = unsafe {
            let start = self.base.load(Relaxed).add(offset as usize);
            start.write_bytes(0, RING);
            start
        };
        (offset, start, RING)
    }

    /// The thread is done with a chunk of the window.
    pub(in crate::writer) fn close_chunk(&self, start: *mut u8, now: u64) {
        let place = (self.offset(start) - HEADER as u64) / RING as u64;
        self.closed(place).store(now.max(1), SeqCst);
        self.queue.add(place);
    }
}

#[cfg(test)]
mod tests;
