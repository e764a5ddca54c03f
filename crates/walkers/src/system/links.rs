//! Checks whether the free blocks that a walk found are those in the bins. The lists of the bins are rings with links in both directions.
//! So the links of the blocks and bins must lead to exactly these blocks and bins. Sums of the addresses show this. To follow the lists
//! would read the heap once more, in no order.

use super::arenas::BINS;
use crate::Memory;

/// The sums of an arena.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Closure {
    members: u64,
    first: u64,
    last: u64,
}

impl Closure {
    /// Begins the sums with the bins.
    pub fn of_bins(memory: &dyn Memory, bins: u64) -> Closure {
        let mut closure = Closure::default();
        let mut words = [0; 16 * BINS as usize];
        if memory.read(bins, &mut words) {
            for (bin, links) in words.chunks_exact(16).enumerate() {
                let word =
                    |at: usize| u64::from_le_bytes(links[at..at + 8].try_into().expect("a word has eight bytes"));
                closure.block(bins + 16 * bin as u64 - 16, word(0), word(8));
            }
        }
        closure
    }

    /// Adds a block or a bin, with its two links.
    pub fn block(&mut self, at: u64, first: u64, last: u64) {
        self.members = self.members.wrapping_add(mixed(at));
        self.first = self.first.wrapping_add(mixed(first));
        self.last = self.last.wrapping_add(mixed(last));
    }

    /// Whether the links lead to the blocks and bins, each exactly once.
    pub fn closes(&self) -> bool {
        self.members == self.first && self.members == self.last
    }
}

/// Mixes an address, so that different sets of addresses have different sums.
fn mixed(at: u64) -> u64 {
    let at = (at ^ at >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let at = (at ^ at >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    at ^ at >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_that_was_not_met_or_is_in_no_bin_is_noticed() {
        let ring = [(0x100, 0x300, 0x200), (0x200, 0x100, 0x300), (0x300, 0x200, 0x100)];
        let closes = |blocks: &[(u64, u64, u64)]| {
            let mut closure = Closure::default();
            blocks.iter().for_each(|&(at, first, last)| closure.block(at, first, last));
            closure.closes()
        };
        assert!(closes(&ring));
        assert!(!closes(&ring[..2]));
        assert!(!closes(&[ring[0], ring[1], ring[2], (0x400, 0, 0)]));
    }
}
