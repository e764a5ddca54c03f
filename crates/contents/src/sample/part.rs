//! Chooses the sample of a heap: which blocks are examined, and their pages.

use std::ops::Range;

use allocanary_heap::{HeapBlock, PAGE};

use crate::blocks::Blocks;

/// All blocks of at least `LARGE` bytes are examined, but only the first `BEGINNING` bytes of each.
pub(super) const LARGE: u64 = 1 << 20;
const BEGINNING: u64 = 16 << 10;
/// The sample takes 1 / `PART` of the bytes that may be copied. The variables of the program take at most as many again.
pub(super) const PART: u64 = 8;
/// The fewest pages of a useful sample.
const FEWEST: u64 = 64;

/// The choice of pages: about one in `every`.
#[derive(Clone, Copy, Debug)]
pub struct PageSample {
    pub(super) every: u64,
}

impl PageSample {
    /// Chooses as many pages as fit into their part of what may be copied.
    pub(super) fn of(blocks: &Blocks, limit: u64) -> PageSample {
        let bytes: u64 = blocks.iter().map(|(_, block)| block.bytes).filter(|bytes| *bytes < LARGE).sum();
        PageSample { every: bytes.div_ceil((limit / PART).max(FEWEST * PAGE)).max(1) }
    }

    /// Whether a block is examined.
    pub fn has(&self, block: &HeapBlock) -> bool {
        let mixed = (block.at / PAGE).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        block.bytes >= LARGE || mixed.is_multiple_of(self.every)
    }

    /// The pages of the examined blocks.
    pub(super) fn pages(&self, blocks: &Blocks) -> Vec<Range<u64>> {
        let looked = blocks.iter().map(|(_, block)| block).filter(|block| self.has(block));
        let pages = |block: HeapBlock| {
            let bytes = if block.bytes < LARGE { block.bytes } else { BEGINNING };
            block.at / PAGE * PAGE..(block.at + bytes).next_multiple_of(PAGE)
        };
        looked.map(pages).collect()
    }
}
