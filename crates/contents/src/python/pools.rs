//! Finds the pools of CPython's small blocks in memory that no allocator has, and the blocks in them that are in use.
//!
//! A pool has blocks of one size. Its header has 48 bytes: the number of used blocks at 0, the free list at 8, two neighbours at 16 and 24,
//! the size class at 36, the offset of the next block that was never used at 40, and the last such offset at 44. A pool is verified: all
//! blocks that were ever used, without those in the free list, must be the used ones. Pools have 4 KiB up to 3.9, and 16 KiB from then on.

use std::ops::Range;

use allocanary_heap::{HeapBlock, Memory, MemoryCopy};

use crate::roots::gaps;

const HEADER: u64 = 48;
const SIZES: [u64; 2] = [4 << 10, 16 << 10];

/// All pools of a process.
#[derive(Debug, Default)]
pub struct Pools {
    /// The blocks in use.
    pub blocks: Vec<HeapBlock>,
    /// The pools, in the order of their addresses.
    pub ranges: Vec<Range<u64>>,
}

/// Searches private memory without a file, except for the allocators' ranges.
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
    // The size that leads to more blocks is the right one.
    SIZES.map(of_size).into_iter().max_by_key(|found| found.blocks.len()).unwrap_or_default()
}

/// The used blocks of a pool; `None` if there is no pool.
fn read(copy: &MemoryCopy, at: u64, pool: u64) -> Option<Vec<HeapBlock>> {
    // The header excludes most other memory. Only these words are read first, because the end of the last pool may never have been touched.
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
        // A list with a circle is not a free list.
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
