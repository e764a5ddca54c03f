//! The blocks that thread caches keep, and those that the caches are in. In: the threads, and the extents. Out: the blocks' addresses.
//!
//! A thread has its cache among its thread-local variables, just below its thread pointer: an array with one `cache_bin_t` for
//! each size class (`include/jemalloc/internal/cache_bin.h`, releases 5.3.0 and 5.3.1), 24 bytes each:
//!
//! | offset | field | |
//! |---|---|---|
//! | 0 | `stack_head` | the address of the first cached block's address |
//! | 16 | `low_bits_low_water` | |
//! | 18 | `low_bits_full` | the low 16 bits of where the stack of addresses begins |
//! | 20 | `low_bits_empty` | the low 16 bits of where it ends |
//!
//! The stacks of all classes lie one behind the other. So each record ends where the next begins, and no address is needed to find
//! the array: it is a long run of records for which this is so. Each cached block must have the size class of its record; where most
//! have not, the array is that of another jemalloc in the process.

use super::extents::Extents;
use crate::{Memory, Thread};

const RECORD: usize = 24;

/// The bytes below the thread pointer in which thread-local variables are looked for.
const BELOW: u64 = 1 << 18;

/// A shorter run of records is no cache. jemalloc has 36 classes of small blocks.
const SHORTEST: usize = 16;

/// What was found.
#[derive(Debug, Default)]
pub struct Caches {
    /// The addresses of cached blocks, sorted.
    pub blocks: Vec<u64>,
    /// The addresses of the blocks that have the stacks of addresses: jemalloc's own, sorted. 28 KiB for each thread by default.
    pub own: Vec<u64>,
    /// Addresses in caches that are no blocks of their class: the cache changed while it was read.
    pub odd: u64,
}

impl Caches {
    /// Reads the caches of all threads.
    pub fn read(memory: &dyn Memory, extents: &Extents) -> Caches {
        let mut caches = Caches::default();
        for thread in memory.threads() {
            caches.thread(memory, thread, extents);
        }
        caches.blocks.sort_unstable();
        caches.blocks.dedup();
        caches.own.sort_unstable();
        caches.own.dedup();
        caches
    }

    fn thread(&mut self, memory: &dyn Memory, thread: &Thread, extents: &Extents) -> Option<()> {
        let pointer = thread.pointer?;
        let from = pointer.checked_sub(BELOW)?.max(memory.mapping(pointer.checked_sub(8)?)?.from);
        let mut bytes = vec![0; (pointer - from) as usize];
        if !memory.read(from, &mut bytes) {
            return None;
        }
        for run in runs(&bytes) {
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
                blocks.extend(good);
            }
            if blocks.len() >= odd {
                self.own.extend(run.last().and_then(|last| extents.block_of(last.end() - 1)));
                self.odd += odd as u64;
                self.blocks.extend(blocks);
            }
        }
        Some(())
    }
}

/// A `cache_bin_t`.
struct Record {
    head: u64,
    full: u16,
    empty: u16,
    /// Bytes of addresses in the stack.
    cached: usize,
}

impl Record {
    fn parse(bytes: &[u8]) -> Option<Record> {
        let half = |at: usize| Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
        let head = u64::from_le_bytes(bytes.get(..8)?.try_into().ok()?);
        let (full, empty) = (half(18)?, half(20)?);
        let (length, cached) = (empty.wrapping_sub(full), empty.wrapping_sub(head as u16));
        let aligned = head % 8 == 0 && full % 8 == 0 && empty % 8 == 0;
        ((1 << 16..1 << 56).contains(&head) && aligned && length > 0 && cached <= length).then_some(Record {
            head,
            full,
            empty,
            cached: usize::from(cached),
        })
    }

    /// Where its stack ends.
    fn end(&self) -> u64 {
        self.head + self.cached as u64
    }
}

/// The long runs of records of which each ends where the next begins.
fn runs(bytes: &[u8]) -> Vec<Vec<Record>> {
    let (mut runs, mut at) = (Vec::new(), 0);
    while at + RECORD <= bytes.len() {
        let run = run(&bytes[at..]);
        at += if run.len() >= SHORTEST { run.len() * RECORD } else { 8 };
        if run.len() >= SHORTEST {
            runs.push(run);
        }
    }
    runs
}

fn run(bytes: &[u8]) -> Vec<Record> {
    let mut run: Vec<Record> = Vec::new();
    for record in bytes.chunks_exact(RECORD).map_while(Record::parse) {
        let follows = |last: &Record| {
            last.empty == record.full
                && record.end().wrapping_sub(last.end()) == u64::from(record.empty.wrapping_sub(record.full))
        };
        if !run.last().is_none_or(follows) {
            break;
        }
        run.push(record);
    }
    run
}
