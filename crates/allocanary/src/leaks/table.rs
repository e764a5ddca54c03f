//! The records of live blocks, by address. In: blocks made, moved and freed, by any thread. Out: the records.
//!
//! A header with the capacity, and four arrays, in one mapping. None is locked, and none moves:
//!
//! - the [*filter*](super::filter), which shows for nearly every block that it has no record. It comes first in the
//!   mapping, so that a free finds it by one pointer;
//! - *records*, used from the first on and reused by a free list, so that only memory for the highest number of records
//!   alive at once is touched;
//! - the *index*: an address and the number of its record, at most [`PROBES`] places after the address's home. It has
//!   twice as many places as there are records;
//! - *homed*: a byte for each home, with the number of recorded blocks that have this home. It grows with the table. If
//!   the filter is not sure, this byte is read before the index is searched.
//!
//! Only a block's owner looks for its address, so concurrent changes of other addresses do not matter. The owner must
//! remove its record *before* it frees the block. Readers of all records read each record's turn twice. It is odd while
//! the record belongs to a block, and differs if the record changed in between.

use std::ptr::NonNull;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU8, AtomicU64, fence};

use super::filter::Filter;
use allocanary_sys::free_list::FreeList;
use allocanary_sys::sys;

/// The number of stack frames that are kept, including the allocator's own (about 5).
pub const DEPTH: usize = 24;
/// The maximum distance of an address from its home. With half of the places free, even 20 used places are rarely in a
/// row.
const PROBES: usize = 64;
/// In the index: a thread is about to write an address here.
const BUSY: u64 = 1;
/// The offsets of the header and of the bytes after it in the mapping.
const HEADER: usize = size_of::<Filter>();
const HOMED: usize = HEADER + size_of::<Header>();

/// One live block.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// Its size in bytes.
    pub size: u64,
    /// The bytes for which random draws were made: the size, or more if the block grew, shrank and grew again.
    pub drawn: u64,
    /// When it was allocated, by the monotonic clock, in nanoseconds.
    pub born: u64,
    /// The code addresses of the stack, innermost first. After the last one comes 0.
    pub frames: [usize; DEPTH],
}

struct Header {
    /// The maximum number of records, since the table was made.
    capacity: usize,
    /// The index has 2^bits places.
    bits: u32,
    free: FreeList,
    /// The number of records that were ever used.
    used: AtomicU64,
}

struct Place {
    address: AtomicU64,
    number: AtomicU64,
}

struct Stored {
    turn: AtomicU64,
    next: AtomicU64,
    size: AtomicU64,
    drawn: AtomicU64,
    born: AtomicU64,
    frames: [AtomicU64; DEPTH],
}

/// A table for `capacity` records, in mapped memory. Does not use the allocator.
pub struct Table {
    memory: NonNull<u8>,
}

// SAFETY: all that changes in the memory is atomic.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

impl Table {
    /// A new table; `None` if the kernel has no memory, or if the capacity is 0 or above 2^31.
    pub fn new(capacity: usize) -> Option<Table> {
        if capacity == 0 || capacity > 1 << 31 {
            return None;
        }
        let memory = sys::map_zeroed(length(capacity))?;
        let header = Header { capacity, bits: bits(capacity), free: FreeList::new(), used: AtomicU64::new(0) };
        // SAFETY: new memory that begins with a page and is long enough; a filter's length is a multiple of 8.
        unsafe { memory.add(HEADER).cast().write(header) };
        Some(Table { memory })
    }

    /// Returns the memory, which stays mapped.
    pub fn into_memory(self) -> NonNull<u8> {
        let memory = self.memory;
        std::mem::forget(self);
        memory
    }

    /// Makes the table again from the memory of [`into_memory`](Table::into_memory).
    ///
    /// # Safety
    ///
    /// The memory is of a table. Of all values made from it, at most one is dropped, as the last.
    pub unsafe fn from_memory(memory: NonNull<u8>) -> Table {
        Table { memory }
    }

    /// Writes the record of a new block; `false` if there is no room.
    pub fn insert(&self, address: usize, record: &Record) -> bool {
        let Some(number) = self.header().free.pop(|number| self.stored(number).map(|stored| &stored.next)) else {
            let claim = |used| (used < self.header().capacity as u64).then_some(used + 1);
            let Ok(used) = self.header().used.fetch_update(AcqRel, Acquire, claim) else { return false };
            return self.write(used + 1, address, record);
        };
        self.write(number, address, record)
    }

    fn write(&self, number: u64, address: usize, record: &Record) -> bool {
        let Some(stored) = self.stored(number) else { return false };
        fence(Release); // a reader that sees a new value then also sees that the turn was even
        stored.size.store(record.size, Relaxed);
        stored.drawn.store(record.drawn, Relaxed);
        stored.born.store(record.born, Relaxed);
        for (stored, frame) in stored.frames.iter().zip(record.frames) {
            stored.store(frame as u64, Relaxed);
        }
        stored.turn.store(stored.turn.load(Relaxed) + 1, Release);
        self.attach(address, number)
    }

    /// Removes the block's record, and returns whether it had one. Call it before the block is freed.
    pub fn remove(&self, address: usize) -> bool {
        self.detach(address).is_some_and(|number| {
            self.release(number);
            true
        })
    }

    /// Takes a block's address away from its record, and returns the record's number. While the block is reallocated,
    /// its record belongs to no address.
    pub fn detach(&self, address: usize) -> Option<u64> {
        if self.homed(address).load(Relaxed) == 0 {
            return None;
        }
        let place = self.probe(address).find(|place| place.address.load(Relaxed) == address as u64)?;
        let number = place.number.load(Relaxed);
        place.address.store(0, Release);
        self.homed(address).fetch_sub(1, Relaxed);
        self.filter().remove(address);
        Some(number)
    }

    /// Gives the record an address. Returns `false` if there is no room; the record is then lost.
    pub fn attach(&self, address: usize, number: u64) -> bool {
        let homed = self.homed(address);
        let more = |count: u8| count.checked_add(1);
        if homed.fetch_update(Relaxed, Relaxed, more).is_err() {
            self.release(number);
            return false;
        }
        for place in self.probe(address) {
            let is_free = place.address.load(Relaxed) == 0;
            if is_free && place.address.compare_exchange(0, BUSY, Acquire, Relaxed).is_ok() {
                place.number.store(number, Relaxed);
                self.filter().add(address);
                place.address.store(address as u64, Release);
                return true;
            }
        }
        homed.fetch_sub(1, Relaxed);
        self.release(number);
        false
    }

    /// Sets the size of the block of a detached record, and adds `drawn` to the bytes that draws were made for.
    pub fn resize(&self, number: u64, size: u64, drawn: u64) {
        if let Some(stored) = self.stored(number) {
            stored.size.store(size, Relaxed);
            stored.drawn.fetch_add(drawn, Relaxed);
        }
    }

    /// Ends a record that has no address.
    fn release(&self, number: u64) {
        if let Some(stored) = self.stored(number) {
            stored.turn.store(stored.turn.load(Relaxed) + 1, Release);
            self.header().free.push(number, &stored.next);
        }
    }

    /// Passes every record to `see` while others come and go; a record that changes meanwhile is left out.
    pub fn for_each(&self, see: &mut dyn FnMut(&Record)) {
        for stored in (1..=self.header().used.load(Acquire)).filter_map(|number| self.stored(number)) {
            let turn = stored.turn.load(Acquire);
            if turn.is_multiple_of(2) {
                continue;
            }
            let record = Record {
                size: stored.size.load(Relaxed),
                drawn: stored.drawn.load(Relaxed),
                born: stored.born.load(Relaxed),
                frames: std::array::from_fn(|at| stored.frames[at].load(Relaxed) as usize),
            };
            fence(Acquire);
            if stored.turn.load(Relaxed) == turn {
                see(&record);
            }
        }
    }

    fn home(&self, address: usize) -> usize {
        // Blocks are 16 bytes apart, so the low bits are dropped; the multiplier of Fibonacci hashing spreads the
        // others.
        let mixed = (address as u64 >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> (64 - self.header().bits)) as usize
    }

    fn probe(&self, address: usize) -> impl Iterator<Item = &Place> {
        let home = self.home(address);
        (0..PROBES.min(self.places())).map(move |step| self.place((home + step) & (self.places() - 1)))
    }

    fn places(&self) -> usize {
        1 << self.header().bits
    }

    fn filter(&self) -> &Filter {
        // SAFETY: the mapping begins with a filter, for which zero bytes are a value, and lives as long as `self`.
        unsafe { self.memory.cast().as_ref() }
    }

    fn header(&self) -> &Header {
        // SAFETY: the header is after the filter. `new` wrote it, and only its atomics change.
        unsafe { self.memory.add(HEADER).cast().as_ref() }
    }

    // These are references to one element each, not to whole arrays, because Miri checks everything that a reference
    // may reach.

    /// How many recorded blocks have the address's home.
    fn homed(&self, address: usize) -> &AtomicU8 {
        // SAFETY: after the header is a byte for each place, and a home is the number of a place.
        unsafe { self.memory.add(HOMED + self.home(address)).cast().as_ref() }
    }

    /// The place `at` of the index; `at` is below [`places`](Table::places).
    fn place(&self, at: usize) -> &Place {
        debug_assert!(at < self.places());
        let start = HOMED + self.places();
        // SAFETY: the places are after these bytes, and aligned, because all lengths before are multiples of 8.
        unsafe { self.memory.add(start).cast::<Place>().add(at).as_ref() }
    }

    /// The record with this number; they are numbered from 1.
    fn stored(&self, number: u64) -> Option<&Stored> {
        let start = HOMED + self.places() * (1 + size_of::<Place>());
        let at = (number as usize).checked_sub(1).filter(|at| *at < self.header().capacity)?;
        // SAFETY: after the places are `capacity` records, and `at` is below that.
        Some(unsafe { self.memory.add(start).cast::<Stored>().add(at).as_ref() })
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        // SAFETY: `new` mapped the memory with this length, and this is the last value made from it.
        unsafe { sys::unmap(self.memory, length(self.header().capacity)) };
    }
}

/// The logarithm of the places in the index. There are at least twice as many as records, and at least 8, so that the
/// records are aligned.
fn bits(capacity: usize) -> u32 {
    let twice = (2 * capacity).next_power_of_two();
    if twice < 8 { 3 } else { twice.ilog2() }
}

fn length(capacity: usize) -> usize {
    HOMED + (1 << bits(capacity)) * (1 + size_of::<Place>()) + capacity * size_of::<Stored>()
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
