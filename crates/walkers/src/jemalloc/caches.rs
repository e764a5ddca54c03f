//! The blocks that thread caches keep, and those that the caches are in. In: the threads, and the extents. Out: the blocks' addresses.
//!
//! A thread has its cache among its thread-local variables, just below its thread pointer, or above it on aarch64: arrays with one `cache_bin_t` of 24 bytes for
//! each size class (`include/jemalloc/internal/cache_bin.h`):
//!
//! | offset | 5.3 | |
//! |---|---|---|
//! | 0 | `stack_head` | the address of the first cached block's address |
//! | 16 | `low_bits_low_water` | |
//! | 18 | `low_bits_full` | the low 16 bits of where the stack of addresses begins |
//! | 20 | `low_bits_empty` | the low 16 bits of where it ends |
//!
//! | offset | 5.2 | |
//! |---|---|---|
//! | 4 | `ncached` | how many blocks are cached |
//! | 16 | `avail` | where the stack of addresses ends |
//!
//! The stacks of all classes lie one behind the other. So each record ends where the next begins, and no address is needed to find
//! an array: it is a long run of records for which this is so. Each cached block must have the size class of its record; where most
//! have not, the array is that of another jemalloc in the process. In 5.2 large blocks have an array of their own, behind a structure
//! with the addresses of both.

use std::ops::Range;

use super::extents::Extents;
use super::release::{JemallocRelease, ThreadCacheForm};
use crate::{Memory, ThreadId};

const RECORD: usize = 24;

/// The bytes next to the thread pointer in which thread-local variables are looked for.
const REACH: u64 = 1 << 18;

/// How many bytes behind the array for small blocks are searched for the address of the one for large blocks (5.2).
const BEHIND: usize = 256;

/// The most blocks of a class in a cache of 5.2 (that release has no `lg_tcache_nslots_mul`).
const MOST: u64 = 1 << 13;

/// A shorter run of records is not accepted as a cache. jemalloc has 36 classes of small blocks.
const SHORTEST: usize = 16;

/// The caches of all threads.
#[derive(Debug, Default)]
pub struct Caches {
    /// The addresses of cached blocks, sorted.
    pub blocks: Vec<u64>,
    /// The addresses, sorted, of jemalloc's own blocks with the stacks of addresses. A thread has 28 KiB of these by default.
    pub own: Vec<u64>,
    /// The ranges of the caches, and of their stacks of addresses.
    pub places: Vec<Range<u64>>,
    /// Addresses in caches that are no blocks of their class, because the cache changed while it was read.
    pub odd: u64,
    /// Bytes of the blocks for such addresses, if they lie in the heap. They count as live.
    pub moved: u64,
}

impl Caches {
    /// Reads the caches of all threads.
    pub fn read(memory: &dyn Memory, extents: &Extents, release: &JemallocRelease) -> Caches {
        let mut caches = Caches::default();
        for thread in memory.threads() {
            caches.thread(memory, thread, extents, release);
        }
        caches.blocks.sort_unstable();
        caches.blocks.dedup();
        caches.own.sort_unstable();
        caches.own.dedup();
        caches
    }

    fn thread(
        &mut self,
        memory: &dyn Memory,
        thread: &ThreadId,
        extents: &Extents,
        release: &JemallocRelease,
    ) -> Option<()> {
        let pointer = thread.pointer?;
        let reached = memory.machine().processor.variables(pointer, REACH);
        let mapping = memory.mapping(pointer.checked_sub(8)?)?;
        let (from, to) = (reached.start.max(mapping.from), reached.end.min(mapping.to));
        let mut bytes = vec![0; to.checked_sub(from)? as usize];
        if !memory.read(from, &mut bytes) {
            return None;
        }
        for (at, run) in runs(&bytes, from, release) {
            let (mut blocks, mut odd) = (Vec::new(), 0);
            for (class, record) in run.iter().enumerate() {
                let mut items = vec![0; record.cached];
                if !memory.read(record.head, &mut items) {
                    odd += 1;
                    continue;
                }
                let items = items.chunks_exact(8).map(|item| u64::from_le_bytes(item.try_into().expect("eight bytes")));
                let (good, bad): (Vec<u64>, Vec<u64>) =
                    items.partition(|item| extents.class_of_block(*item) == Some(class as u8));
                odd += bad.len();
                let of_heap = bad.iter().filter(|item| extents.at(**item).is_some()).count() as u64;
                self.moved += of_heap * release.classes.bytes(class as u8);
                blocks.extend(good);
            }
            let end = run.last().map_or(1, Record::end);
            let own = extents.block_of(end - 1);
            // This includes the records for large blocks of 5.2, which lie behind those for small ones.
            self.places.push(at..to);
            self.places.extend(own.map(|own| own..end));
            if blocks.len() >= odd {
                self.own.extend(own);
                self.odd += odd as u64;
                self.blocks.extend(blocks);
            }
        }
        Some(())
    }
}

/// A `cache_bin_t`.
#[derive(Clone, Copy)]
struct Record {
    head: u64,
    /// The bytes of the stack that are in use: 8 for each cached block.
    cached: usize,
    /// The low 16 bits of the addresses where its stack begins and ends, if the record has them.
    low: Option<(u16, u16)>,
}

impl Record {
    fn parse(bytes: &[u8], form: ThreadCacheForm) -> Option<Record> {
        let half = |at: usize| Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
        let word = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let is_address = |at: u64| (1 << 16..1 << 56).contains(&at) && at.is_multiple_of(8);
        match form {
            ThreadCacheForm::LowBits => {
                let (head, full, empty) = (word(0)?, half(18)?, half(20)?);
                let (length, cached) = (empty.wrapping_sub(full), empty.wrapping_sub(head as u16));
                let aligned = full % 8 == 0 && empty % 8 == 0;
                (is_address(head) && aligned && length > 0 && cached <= length).then_some(Record {
                    head,
                    cached: usize::from(cached),
                    low: Some((full, empty)),
                })
            }
            ThreadCacheForm::Counts => {
                let (count, end) = (word(0)? >> 32, word(16)?);
                let bytes = 8 * count;
                let record = Record { head: end.wrapping_sub(bytes), cached: bytes as usize, low: None };
                (is_address(end) && count <= MOST).then_some(record)
            }
        }
    }

    /// The address where its stack ends.
    fn end(&self) -> u64 {
        self.head + self.cached as u64
    }

    /// Whether its stack lies directly behind that of another record.
    fn follows(&self, last: &Record) -> bool {
        let length = self.end().wrapping_sub(last.end());
        match (self.low, last.low) {
            (Some((full, empty)), Some((_, before))) => before == full && length == u64::from(empty.wrapping_sub(full)),
            // The record has no begin of the stack: the distance must have room for the cached blocks.
            _ => (1..=8 * MOST).contains(&length) && self.cached as u64 <= length,
        }
    }
}

/// The long runs of records whose stacks are adjacent, each with the address of its first record. `from` is the address of `bytes`.
fn runs(bytes: &[u8], from: u64, release: &JemallocRelease) -> Vec<(u64, Vec<Record>)> {
    let (mut runs, mut at) = (Vec::new(), 0);
    while at + RECORD <= bytes.len() {
        let mut found = run(&bytes[at..], None, release.cache);
        let length = found.len();
        if length >= SHORTEST {
            if release.cache == ThreadCacheForm::Counts {
                large(bytes, from, at, &mut found, release);
            }
            runs.push((from + at as u64, found));
        }
        at += if length >= SHORTEST { length * RECORD } else { 8 };
    }
    runs
}

/// Adds the records for large blocks to those for small ones, which begin at `bytes[at]`.
fn large(bytes: &[u8], from: u64, at: usize, small: &mut Vec<Record>, release: &JemallocRelease) {
    small.truncate(release.classes.small.into());
    let behind = at + small.len() * RECORD;
    let Some(words) = bytes.get(behind..bytes.len().min(behind + BEHIND)) else { return };
    let is = |bytes: &[u8], wanted: u64| bytes == wanted.to_le_bytes();
    let Some(place) = words.chunks_exact(8).position(|word| is(word, from + at as u64)) else { return };
    let Some(Ok(address)) = words.get(8 * place + 8..8 * place + 16).map(<[u8; 8]>::try_from) else { return };
    let Some(begins) = u64::from_le_bytes(address).checked_sub(from) else { return };
    if let Some(bytes) = bytes.get(begins as usize..) {
        let more = run(bytes, small.last().copied(), release.cache);
        small.extend(more);
    }
}

/// The records from the first byte on, until one's stack does not follow the one before.
fn run(bytes: &[u8], mut last: Option<Record>, form: ThreadCacheForm) -> Vec<Record> {
    let follow = |record: Record| {
        let follows = last.is_none_or(|last| record.follows(&last));
        last = Some(record);
        follows.then_some(record)
    };
    bytes.chunks_exact(RECORD).map_while(|bytes| Record::parse(bytes, form)).map_while(follow).collect()
}
