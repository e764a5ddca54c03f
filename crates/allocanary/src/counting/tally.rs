//! One thread's tally: written by its thread with plain adds, readable by every thread. In: the sizes of blocks. Out:
//! counts.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, fence};

use super::Counts;

/// Counters with one writer. They are atomic only for the readers: relaxed loads and stores are plain adds in memory.
/// Tallies are 128 bytes apart, because processors fetch lines in pairs.
///
/// Live bytes are kept as `room`, the distance from `peak`. So one subtraction counts, and its sign shows a new peak.
/// Freed bytes need no counter: they are `bytes` minus the live bytes. Three counters and a comparison with a separate
/// peak took half as many instructions again.
#[repr(C, align(128))]
pub struct Tally {
    bytes: AtomicU64,
    /// Peak minus live bytes, signed; below 0 only within `gained`, and in a tally without an owner.
    room: AtomicU64,
    peak: AtomicU64,
    allocations: AtomicU64,
    frees: AtomicU64,
    reallocations: AtomicU64,
    /// Odd while both `peak` and `room` are rewritten. A reader that saw only one of them changed would compute wrong
    /// live bytes. All other calls change only one of the two.
    turn: AtomicU64,
    /// The tally's values when its present thread claimed it: bytes, freed, allocations, frees, reallocations.
    start: [AtomicU64; 5],
    /// For the pool: the next free tally.
    pub next: AtomicU64,
}

/// A tally's values at one time. `peak` is the maximum of `bytes - freed` since the process began.
#[derive(Clone, Copy)]
pub struct TallyTotals {
    pub bytes: u64,
    pub freed: u64,
    pub peak: i64,
    pub allocations: u64,
    pub frees: u64,
    pub reallocations: u64,
}

impl TallyTotals {
    fn live(&self) -> i64 {
        self.bytes.wrapping_sub(self.freed) as i64
    }

    /// The counts since `before`.
    pub fn since(&self, before: &TallyTotals) -> Counts {
        Counts {
            allocations: self.allocations - before.allocations,
            frees: self.frees - before.frees,
            reallocations: self.reallocations - before.reallocations,
            bytes: self.bytes.wrapping_sub(before.bytes),
            freed: self.freed.wrapping_sub(before.freed),
            live: self.live() - before.live(),
            peak: u64::try_from(self.peak - before.live()).unwrap_or(0),
        }
    }
}

/// Adds to a counter that no other thread writes.
#[inline(always)]
fn add(counter: &AtomicU64, more: u64) -> i64 {
    let sum = counter.load(Relaxed).wrapping_add(more);
    counter.store(sum, Relaxed);
    sum as i64
}

/// The room of a tally without an owner: it stays below 0, whatever is added.
const NOBODYS: i64 = i64::MIN / 2;

/// How often a reader checks for the end of a turn. A turn is three stores, unless its thread was interrupted.
const ATTEMPTS: usize = 1000;

impl Tally {
    pub const fn new() -> Self {
        Tally::with_room(0)
    }

    /// A tally without an owner: each call on it returns `false`, and what is added to it is lost.
    pub const fn nobodys() -> Self {
        Tally::with_room(NOBODYS)
    }

    const fn with_room(room: i64) -> Self {
        Tally {
            bytes: AtomicU64::new(0),
            room: AtomicU64::new(room as u64),
            peak: AtomicU64::new(0),
            allocations: AtomicU64::new(0),
            frees: AtomicU64::new(0),
            reallocations: AtomicU64::new(0),
            turn: AtomicU64::new(0),
            start: [const { AtomicU64::new(0) }; 5],
            next: AtomicU64::new(0),
        }
    }

    /// Counts a block of `size` bytes; `false` if the tally has no owner.
    #[inline(always)]
    pub fn allocated(&self, size: u64) -> bool {
        add(&self.allocations, 1);
        self.gained(size)
    }

    /// Counts a free of a block of `size` bytes; `false` if the tally has no owner.
    #[inline(always)]
    pub fn freed(&self, size: u64) -> bool {
        add(&self.frees, 1);
        add(&self.room, size) >= 0
    }

    /// Counts that a block of `old` bytes now has `new` bytes; `false` if the tally has no owner.
    #[inline(always)]
    pub fn reallocated(&self, old: u64, new: u64) -> bool {
        add(&self.reallocations, 1);
        if new >= old { self.gained(new - old) } else { add(&self.room, old - new) >= 0 }
    }

    #[inline(always)]
    fn gained(&self, size: u64) -> bool {
        add(&self.bytes, size);
        let room = add(&self.room, size.wrapping_neg());
        room >= 0 || self.rises(room)
    }

    /// Sets a new peak: the last one minus `room`, which is negative.
    #[inline(never)]
    fn rises(&self, room: i64) -> bool {
        if room < NOBODYS / 2 {
            self.room.store(NOBODYS as u64, Relaxed); // so that the room stays below 0, however much is added
            return false;
        }
        self.rewrite(self.peak.load(Relaxed).wrapping_add(room.unsigned_abs()), 0);
        true
    }

    /// Changes both words in one turn. Only the tally's own thread may call it.
    fn rewrite(&self, peak: u64, room: u64) {
        let turn = self.turn.load(Relaxed);
        self.turn.store(turn.wrapping_add(1), Relaxed);
        fence(Release);
        self.peak.store(peak, Relaxed);
        self.room.store(room, Relaxed);
        self.turn.store(turn.wrapping_add(2), Release);
    }

    /// The peak and the room of the same time; `None` while they are being rewritten.
    fn peak_and_room(&self) -> Option<(i64, i64)> {
        let turn = self.turn.load(Acquire);
        let both = self.both();
        fence(Acquire);
        (turn & 1 == 0 && self.turn.load(Relaxed) == turn).then_some(both)
    }

    fn both(&self) -> (i64, i64) {
        (self.peak.load(Relaxed) as i64, self.room.load(Relaxed) as i64)
    }

    /// Like [`peak_and_room`](Self::peak_and_room), but waits for the end of a turn. The wait is limited: the child of a
    /// fork has tallies of threads that do not exist there, and a signal handler may have interrupted its own thread's
    /// turn. In these cases the two words are taken as they are.
    fn settled(&self) -> (i64, i64) {
        for attempt in 0..ATTEMPTS {
            match self.peak_and_room() {
                Some(both) => return both,
                None if attempt < ATTEMPTS / 10 => std::hint::spin_loop(),
                None => std::thread::yield_now(),
            }
        }
        self.both()
    }

    fn live(&self) -> i64 {
        let (peak, room) = self.settled();
        peak.wrapping_sub(room)
    }

    pub fn read(&self) -> TallyTotals {
        let (peak, room) = self.settled();
        let bytes = self.bytes.load(Relaxed);
        TallyTotals {
            bytes,
            freed: bytes.wrapping_sub(peak.wrapping_sub(room) as u64),
            peak,
            allocations: self.allocations.load(Relaxed),
            frees: self.frees.load(Relaxed),
            reallocations: self.reallocations.load(Relaxed),
        }
    }

    /// Starts a new peak at the present live bytes, and returns the previous peak.
    pub fn start_peak(&self) -> i64 {
        let before = self.peak.load(Relaxed) as i64;
        self.set_peak(self.live());
        before
    }

    /// Ends the peak that `start_peak` began. The surrounding peak becomes `before` or the present one, whichever is
    /// higher.
    pub fn end_peak(&self, before: i64) {
        self.set_peak(before.max(self.peak.load(Relaxed) as i64));
    }

    fn set_peak(&self, peak: i64) {
        let live = self.live();
        self.rewrite(peak as u64, (peak - live) as u64);
    }

    /// Whether this tally counts an allocation that `call` makes on this thread. It then undoes the counts.
    pub fn counts(&self, call: impl FnOnce()) -> bool {
        let counters = [&self.bytes, &self.allocations, &self.frees, &self.reallocations];
        let before = counters.map(|counter| counter.load(Relaxed));
        let (peak, room) = self.both();
        call();
        let is_counted = self.allocations.load(Relaxed) != before[1];
        counters.iter().zip(before).for_each(|(counter, before)| counter.store(before, Relaxed));
        self.rewrite(peak as u64, room as u64);
        is_counted
    }

    /// Starts the counts of a new thread.
    pub fn begin(&self) {
        let now = self.read();
        let marks = [now.bytes, now.freed, now.allocations, now.frees, now.reallocations];
        for (start, mark) in self.start.iter().zip(marks) {
            start.store(mark, Relaxed);
        }
        self.start_peak();
    }

    /// The tally's values when its present thread began.
    pub fn start(&self) -> TallyTotals {
        let [bytes, freed, allocations, frees, reallocations] =
            [0, 1, 2, 3, 4].map(|at: usize| self.start[at].load(Relaxed));
        TallyTotals { bytes, freed, peak: 0, allocations, frees, reallocations }
    }
}

/// A tally that any thread may add to, with locked instructions: for the few calls after a thread's own tally is gone.
/// It keeps no peak.
pub struct Shared(pub Tally);

impl Shared {
    pub fn allocated(&self, size: u64) {
        self.0.allocations.fetch_add(1, Relaxed);
        self.0.bytes.fetch_add(size, Relaxed);
        self.0.room.fetch_sub(size, Relaxed);
    }

    pub fn freed(&self, size: u64) {
        self.0.frees.fetch_add(1, Relaxed);
        self.0.room.fetch_add(size, Relaxed);
    }

    pub fn reallocated(&self, old: u64, new: u64) {
        self.0.reallocations.fetch_add(1, Relaxed);
        self.0.bytes.fetch_add(new.saturating_sub(old), Relaxed);
        self.0.room.fetch_add(old.wrapping_sub(new), Relaxed);
    }
}

#[cfg(test)]
#[path = "tally_tests.rs"]
mod tests;
