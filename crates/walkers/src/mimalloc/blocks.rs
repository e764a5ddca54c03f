//! Finds the free blocks of a page, and whether the page's lists agree with its counts.

use std::collections::BTreeSet;

use super::page::MiPage;
use crate::Memory;

/// In pages with blocks of at least this size, each link is read by itself. Other pages are read at once.
const APART: u64 = 1024;

/// The free blocks of a page, as one bit for each block.
#[derive(Debug, Default)]
pub struct PageBlocks {
    /// Blocks in the lists `free` and `local_free`.
    pub free: Vec<u64>,
    /// Blocks that other threads have freed.
    pub freed_by_others: Vec<u64>,
    /// The difference in blocks between the lists and the counts.
    pub wrong: u64,
}

/// Reads a page's lists. `bytes` is only a buffer, so that it is allocated once.
pub fn read(memory: &dyn Memory, page: &MiPage, bytes: &mut Vec<u8>) -> PageBlocks {
    let words = usize::from(page.capacity).div_ceil(64);
    let mut blocks = PageBlocks { free: vec![0; words], freed_by_others: vec![0; words], wrong: 0 };
    let lists = page.free[0] != 0 || page.free[1] != 0 || page.freed_by_others != 0;
    bytes.clear();
    if lists && page.block < APART {
        bytes.resize((page.end() - page.start) as usize, 0);
        if !memory.read(page.start, bytes) {
            bytes.clear();
        }
    }
    let next = |at: u64| {
        let from = (at - page.start) as usize;
        match bytes.get(from..from + 8) {
            Some(link) => Some(u64::from_le_bytes(link.try_into().ok()?)),
            None => memory.word(at),
        }
    };
    let mut whole = true;
    for head in page.free {
        whole &= follow(page, head, &next, &mut blocks.free);
    }
    whole &= follow(page, page.freed_by_others, &next, &mut blocks.freed_by_others);
    let (free, others) = (count(&blocks.free), count(&blocks.freed_by_others));
    blocks.wrong = (free + u64::from(page.used)).abs_diff(u64::from(page.capacity));
    blocks.wrong += others.saturating_sub(u64::from(page.used)) + u64::from(!whole);
    blocks
}

impl PageBlocks {
    /// Marks the blocks of `all` that lie in the page as freed by other threads.
    pub fn also_freed_by_others(&mut self, page: &MiPage, all: &BTreeSet<u64>) {
        for index in all.range(page.start..page.end()).filter_map(|at| page.index(*at)) {
            self.freed_by_others[index / 64] |= 1 << (index % 64);
        }
    }
}

/// Sets the bits of a list's blocks. Returns false if a link leads outside of the page or to a block for the second time, or cannot be
/// read.
fn follow(page: &MiPage, head: u64, next: &dyn Fn(u64) -> Option<u64>, bits: &mut [u64]) -> bool {
    let mut at = head;
    while at != 0 {
        let Some(index) = page.index(at) else { return false };
        let (word, bit) = (index / 64, 1 << (index % 64));
        if bits[word] & bit != 0 {
            return false;
        }
        bits[word] |= bit;
        match next(at) {
            Some(link) => at = link,
            None => return false,
        }
    }
    true
}

/// How many bits are set.
pub fn count(bits: &[u64]) -> u64 {
    bits.iter().map(|bits| u64::from(bits.count_ones())).sum()
}
