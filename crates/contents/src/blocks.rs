//! The live blocks of all heaps, with an index that finds the block at an address.
//!
//! The index leads from each 256 bytes of addresses (a granule) to the first block in them. It has three levels, as the processor's page
//! tables have: only ranges with blocks take memory, 1.6 % of their size.

use allocanary_heap::{HeapBlock, Processor, Walk};

/// Bits of an address: within a granule, a leaf (2 MiB) and a table (1 GiB).
const GRANULE: u32 = 8;
const LEAF: u32 = 21;
const TABLE: u32 = 30;
const IN_LEAF: usize = 1 << (LEAF - GRANULE);
const IN_TABLE: usize = 1 << (TABLE - LEAF);

/// The blocks, in the order of their addresses. No two overlap.
#[derive(Debug)]
pub struct Blocks {
    all: Vec<HeapBlock>,
    /// The bits of an address. Tags in the upper bits of a pointer are masked.
    address: u64,
    /// For each GiB, the index of its table plus one; 0 if it has none.
    top: Vec<u32>,
    /// For each 2 MiB, the index of its leaf plus one; 0 if it has none.
    tables: Vec<u32>,
    /// For each granule, the index of the first block that ends behind its beginning, plus one; 0 if it has none.
    leaves: Vec<u32>,
}

impl Blocks {
    /// The blocks of all walks, and `others`. The walks have no blocks afterwards.
    pub fn of(walks: &mut [Walk], others: Vec<HeapBlock>, processor: Processor) -> Blocks {
        let mut lists = walks.iter_mut().map(|walk| walk.layout.take_live());
        let mut all = lists.next().unwrap_or_default();
        lists.for_each(|list| all.extend(list));
        all.extend(others);
        Blocks::new(all, processor)
    }

    /// Makes the list from blocks in any order. If two blocks overlap, the one at the lower address stays: a heap that changes can list a
    /// block twice.
    pub fn new(mut all: Vec<HeapBlock>, processor: Processor) -> Blocks {
        let address = processor.address_end() - 1;
        if !all.is_sorted() {
            all.sort_unstable();
        }
        let mut end = 0;
        all.retain(|block| {
            let to = block.at.saturating_add(block.bytes);
            let fits = block.at >= end && block.bytes > 0 && to <= address;
            end = if fits { to } else { end };
            fits
        });
        all.truncate((1 << 31) - 8);
        let top = vec![0; (address >> TABLE) as usize + 1];
        let mut blocks = Blocks { all, address, top, tables: Vec::new(), leaves: Vec::new() };
        for index in 0..blocks.all.len() {
            blocks.enter(index);
        }
        blocks
    }

    fn enter(&mut self, index: usize) {
        let HeapBlock { at, bytes } = self.all[index];
        let (mut granule, last) = (at >> GRANULE, (at + bytes - 1) >> GRANULE);
        while granule <= last {
            let at = granule << GRANULE;
            let table = grown(&mut self.top[(at >> TABLE) as usize], &mut self.tables, IN_TABLE);
            let leaf = grown(&mut self.tables[table + (at >> LEAF) as usize % IN_TABLE], &mut self.leaves, IN_LEAF);
            let first = granule as usize % IN_LEAF;
            let count = ((last - granule + 1) as usize).min(IN_LEAF - first);
            let entries = &mut self.leaves[leaf + first..leaf + first + count];
            // Blocks come in order, so only the first granule can have an earlier block.
            entries.iter_mut().filter(|entry| **entry == 0).for_each(|entry| *entry = index as u32 + 1);
            granule += count as u64;
        }
    }

    /// The number of blocks.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// The block with this index.
    pub fn get(&self, index: u32) -> HeapBlock {
        self.all[index as usize]
    }

    /// All blocks, each with its index.
    pub fn iter(&self) -> impl Iterator<Item = (u32, HeapBlock)> + '_ {
        (0..).zip(self.all.iter().copied())
    }

    /// The address in a word, without the tag that some programs keep in its upper bits.
    pub fn address(&self, word: u64) -> u64 {
        word & self.address
    }

    /// The block that a word points to or into, if there is one. The upper bits of the word, where some programs store a tag, are ignored.
    #[inline]
    pub fn find(&self, word: u64) -> Option<u32> {
        let at = self.address(word);
        let table = *self.top.get((at >> TABLE) as usize)? as usize;
        let table = table.checked_sub(1)? * IN_TABLE;
        let leaf = self.tables[table + (at >> LEAF) as usize % IN_TABLE] as usize;
        let leaf = leaf.checked_sub(1)? * IN_LEAF;
        let first = self.leaves[leaf + (at >> GRANULE) as usize % IN_LEAF] as usize;
        let first = first.checked_sub(1)?;
        for (index, block) in (first..).zip(&self.all[first..]) {
            if at < block.at {
                return None;
            }
            if at - block.at < block.bytes {
                return Some(index as u32);
            }
        }
        None
    }

    /// The block that begins at an address.
    pub fn at(&self, at: u64) -> Option<u32> {
        self.find(at).filter(|index| self.get(*index).at == at)
    }
}

/// The index of the first item in the table or leaf that an entry leads to. Makes this if there is none.
fn grown(entry: &mut u32, below: &mut Vec<u32>, count: usize) -> usize {
    if *entry == 0 {
        below.resize(below.len() + count, 0);
        *entry = (below.len() / count) as u32;
    }
    (*entry as usize - 1) * count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(processor: Processor, all: &[(u64, u64)]) -> Blocks {
        Blocks::new(all.iter().map(|&(at, bytes)| HeapBlock { at, bytes }).collect(), processor)
    }

    #[test]
    fn addresses_of_48_bits_are_those_of_aarch64_only() {
        let all = [(0x5555_0000_0000, 64), (0xffff_8000_0010, 64)];
        let arm = on(Processor::Aarch64, &all);
        assert_eq!(
            [0x5555_0000_0000, 0xffff_8000_0020, 0xaa << 56 | 0xffff_8000_0010].map(|at| arm.find(at)),
            [Some(0), Some(1), Some(1)]
        );
        assert_eq!((arm.find(0xd555_0000_0000), arm.len()), (None, 2));
        let x86 = blocks(&all);
        assert_eq!(
            (x86.find(0xffff_8000_0020), x86.find(0xd555_0000_0000), x86.len()),
            (None, Some(0), 1),
            "bit 47 is a tag"
        );
    }

    fn blocks(all: &[(u64, u64)]) -> Blocks {
        on(Processor::X86_64, all)
    }

    #[test]
    fn pointers_into_a_block_find_it_and_those_between_find_none() {
        let heap = 0x5555_5555_0010;
        let all: Vec<(u64, u64)> = (0..1000).map(|at| (heap + 48 * at, 40)).collect();
        let blocks = blocks(&all);
        for (index, &(at, bytes)) in (0..).zip(&all) {
            assert_eq!([at, at + 1, at + bytes - 1].map(|at| blocks.find(at)), [Some(index); 3]);
            assert_eq!(blocks.find(at + bytes), None);
        }
        assert_eq!([0, heap - 1, heap + 48 * 1000, u64::MAX].map(|at| blocks.find(at)), [None; 4]);
        assert_eq!((blocks.at(heap), blocks.at(heap + 1)), (Some(0), None));
        assert_eq!(blocks.find(heap | 0xabcd << 48), Some(0), "a tag in the upper bits");
    }

    #[test]
    fn a_block_can_be_longer_than_a_leaf_and_a_table() {
        let blocks = blocks(&[(0x7f00_0000_0010, 3 << 30), (0x7f00_0000_0010 + (3 << 30), 16)]);
        assert_eq!(blocks.find(0x7f00_0000_0010 + (2 << 30) + 12345), Some(0));
        assert_eq!(blocks.find(0x7f00_0000_0010 + (3 << 30)), Some(1));
    }

    #[test]
    fn blocks_that_overlap_or_cannot_be_are_left_out() {
        let blocks = blocks(&[
            (0x2000, 16),
            (0x1000, 0x1008),
            (u64::MAX - 3, 100),
            (1 << 50, 16),
            (0x3000, 0),
            (0x4000, u64::MAX),
        ]);
        assert_eq!((blocks.len(), blocks.get(0).at), (1, 0x1000));
        assert!(on(Processor::X86_64, &[]).find(0x1000).is_none());
    }
}
