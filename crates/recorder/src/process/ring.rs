//! The chunks of a window. In: a thread that needs a chunk, or has finished one. Out: the chunk that the thread gets.
//!
//! The file has places of one length. When a thread ends, a new thread may use the rest of its place. A place is closed when no thread
//! writes there. A closed place is used again as a whole, but a place of tables never is.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use super::{Process, SAMPLE_NS};
use crate::memory::populate;
use allocanary_trace::format::{HEADER, at};

/// Length of a place of a window.
pub(crate) const RING: usize = 32 << 10;

/// The offset, in the header of a place's first chunk, of the time at which the place was closed.
const CLOSED: usize = 24;

impl Process {
    /// Hands out a chunk of the window. If the place that was closed first was closed longer ago than the window, it is used again.
    /// Otherwise the file grows by a new place. At the maximum size, the place that was closed first is used again in any case. `None` if
    /// threads write to all places: a later call may find one.
    pub(crate) fn ring_chunk(&self, now: u64) -> Option<(u64, *mut u8, usize)> {
        if self.is_stopped() {
            return None;
        }
        let window = u128::from(self.window.load(Relaxed)) * u128::from(self.sample_ticks.load(Relaxed));
        let before = now.saturating_sub((window / u128::from(SAMPLE_NS)).min(u128::from(u64::MAX)) as u64);
        let (used, limit) = (self.long(at::USED), self.limit.load(Relaxed));
        // If another thread takes the place first, the next one is tried.
        loop {
            let offset = used.load(SeqCst);
            let may_grow = offset + RING as u64 <= limit;
            match self.oldest() {
                Some((closed, place, found)) if !may_grow || closed <= before => {
                    let is_ours = match found {
                        Found::Queued(ticket) => self.queue.take(ticket),
                        Found::Rest(at, rest) => self.rests[at].compare_exchange(rest, 0, SeqCst, SeqCst).is_ok(),
                    };
                    if is_ours {
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

    /// The maximum number of places for tables: half of all.
    fn most_table_places(&self) -> u64 {
        (self.limit.load(Relaxed).saturating_sub(HEADER as u64) / RING as u64) / 2
    }

    /// Hands out a place for tables, which is never used for anything else. `None` if tables have their share, or if threads write to all
    /// other places.
    pub(crate) fn table_place(&self, now: u64) -> Option<(u64, *mut u8)> {
        let one_more = |places| (places < self.most_table_places()).then_some(places + 1);
        self.table_places.fetch_update(SeqCst, SeqCst, one_more).ok()?;
        let place = self.ring_chunk(now);
        if place.is_none() {
            self.table_places.fetch_sub(1, SeqCst);
        }
        place.map(|(offset, start, _)| (offset, start))
    }

    /// Whether tables have less than their share, and the recording has not stopped.
    pub(crate) fn may_have_table_place(&self) -> bool {
        !self.is_stopped() && self.table_places.load(SeqCst) < self.most_table_places()
    }

    /// Takes back a place that was handed out for tables but is not needed.
    pub(crate) fn give_back(&self, start: *mut u8, now: u64) {
        self.close_chunk(start, now);
        self.table_places.fetch_sub(1, SeqCst);
    }

    /// The time at which a place was closed; 0 while a thread writes there.
    fn closed(&self, place: u64) -> &AtomicU64 {
        self.long(HEADER + place as usize * RING + CLOSED)
    }

    /// Empties a place that only this thread uses. Its content is no longer in the window.
    fn empty(&self, place: u64) -> (u64, *mut u8, usize) {
        self.long(at::HORIZON).fetch_max(self.closed(place).load(SeqCst), SeqCst);
        let offset = HEADER as u64 + place * RING as u64;
        // The magic number is erased first, so that a reader of a killed program skips a chunk that is half erased.
        self.word(offset as usize).store(0, SeqCst);
        // SAFETY: the range is within the mapping, and the caller promises that only this thread uses it.
        let start = unsafe {
            let start = self.base.load(Relaxed).add(offset as usize);
            start.write_bytes(0, RING);
            start
        };
        (offset, start, RING)
    }

    /// Returns the place that was closed first: the time, its number, and where it was found. Some places have a rest: room after the chunk
    /// of an ended thread. These are in the table of rests. All other closed places are in the queue.
    fn oldest(&self) -> Option<(u64, u64, Found)> {
        let with_time = |place: u64, found| (self.closed(place).load(SeqCst), place, found);
        let queued = self.queue.first().map(|(ticket, place)| with_time(place, Found::Queued(ticket)));
        let rests = self.rests.iter().map(|rest| rest.load(SeqCst)).enumerate().filter(|(_, rest)| *rest != 0);
        let rests = rests.map(|(at, rest)| with_time(place_of(rest >> 20), Found::Rest(at, rest)));
        queued.into_iter().chain(rests).min_by_key(|(closed, ..)| *closed)
    }

    /// Gives a new thread the rest of an ended thread's chunk.
    pub(crate) fn ring_rest(&self) -> Option<(u64, *mut u8, usize)> {
        let (offset, length) = self.rest()?;
        self.closed(place_of(offset)).store(0, SeqCst);
        // SAFETY: a rest lies within the mapping, and is this thread's alone.
        Some((offset, unsafe { self.base.load(Relaxed).add(offset as usize) }, length))
    }

    /// Closes a chunk of the window that the thread has finished.
    pub(crate) fn close_chunk(&self, start: *mut u8, now: u64) {
        let place = place_of(self.offset(start));
        self.closed(place).store(now.max(1), SeqCst);
        self.queue.add(place);
    }

    /// Ends the chunk of a thread that ends. The thread has used the first `used` bytes of it.
    pub(crate) fn end_chunk(&self, start: *mut u8, used: usize, length: usize, now: u64) {
        let place = place_of(self.offset(start));
        self.closed(place).store(now.max(1), SeqCst);
        if !self.keep_rest(start, used, length) {
            self.queue.add(place);
        }
    }
}

/// Where a place that may be used again was found.
enum Found {
    /// In the queue, with this ticket.
    Queued(u64),
    /// In this slot of the rests. The second number is the rest.
    Rest(usize, u64),
}

/// The place in which an offset lies.
fn place_of(offset: u64) -> u64 {
    (offset - HEADER as u64) / RING as u64
}

#[cfg(test)]
pub(crate) mod tests;
