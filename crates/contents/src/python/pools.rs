//! Pools of CPython's small blocks. In: memory that no allocator has. Out: blocks that are given, and what the pools take.
//!
//! A pool has one size of blocks. Its header of 48 bytes: blocks given at 0, the free list at 8, two neighbours, the size's class at 36, the
//! place of the next block that was never given at 40, and the last such place at 44. It proves itself: what was ever given, without the
//! free list, is what is given. Pools have 4 KiB up to 3.9, and 16 KiB from then on.

use std::ops::Range;

use allocanary_heap::{HeapBlock, Memory, MemoryCopy};

use crate::roots::gaps;

const HEADER: u64 = 48;
const SIZES: [u64; 2] = [4 << 10, 16 << 10];

/// What was found.
#[derive(Debug, Default)]
pub struct Pools {
    /// The blocks that are given.
    pub blocks: Vec<HeapBlock>,
    /// The pools, in the order of their addresses.
    pub ranges: Vec<Range<u64>>,
}

/// Looks in private memory without a file, but not in what allocators have.
pub fn find(copy: &MemoryCopy, taken: &[Range<u64>]) -> Pools {
    let of_size = |pool: u64| {
        let mut found = Pools::default();
        for mapping in copy.mappings().iter().filter(|one| one.is_heap_like() && one.readable) {
            for range in gaps(mapping.from..mapping.to, taken) {
                let (mut at, end) = (range.start.next_multiple_of(pool), range.end);
                while at.saturating_add(pool) <= end {
                    if let Some(blocks) = read(copy, at, pool) {
                        found.blocks.extend(blocks);
                        found.ranges.push(at..at + pool);
                    }
                    at += pool;
                }
            }
        }
        found
    };
    // Of both sizes the one with more proofs.
    SIZES.map(of_size).into_iter().max_by_key(|found| found.blocks.len()).unwrap_or_default()
}

/// The blocks that a pool has given; none if there is no pool.
fn read(copy: &MemoryCopy, at: u64, pool: u64) -> Option<Vec<HeapBlock>> {
    // The header tells most from others. The end of the last pool may never have been touched.
    let class = copy.copied(at + 32)? >> 32;
    if class >= 32 || copy.copied(at + 40)? >> 32 != pool - 16 * (class + 1) {
        return None;
    }
    let mut bytes = vec![0; pool as usize];
    if !copy.read(at, &mut bytes) {
        return None;
    }
    let number = |at: usize| u64::from(u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")));
    let word = |at: usize| bytes.get(at..at + 8).map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")));
    let (given, class, next, last) = (number(0), number(36), number(40), number(44));
    let size = 16 * (class + 1);
    if class >= 32
        || last != pool - size
        || next < HEADER
        || !(next - HEADER).is_multiple_of(size)
        || next > pool
        || given == 0
    {
        return None;
    }
    let ever = (next - HEADER) / size;
    if given > ever || word(16)? == 0 || word(24)? == 0 {
        return None;
    }
    let mut free = vec![false; ever as usize];
    let mut link = word(8)?;
    while link != 0 {
        let place = link.checked_sub(at + HEADER).filter(|place| place % size == 0)? / size;
        let block = free.get_mut(place as usize)?;
        // A list that goes in a circle is none.
        if std::mem::replace(block, true) {
            return None;
        }
        link = word((HEADER + place * size) as usize)?;
    }
    let blocks: Vec<HeapBlock> = (0..ever)
        .filter(|place| !free[*place as usize])
        .map(|place| HeapBlock { at: at + HEADER + place * size, bytes: size })
        .collect();
    (blocks.len() as u64 == given).then_some(blocks)
}
