//! Finds words that point to a block but do not hold it.
//!
//! CPython's garbage collector links all its objects by two words before each object. These words hold nothing, and would make every object
//! reachable. They point to the words before an object, while all other pointers point to the object itself. A weak reference has pointers
//! to its object and to its neighbours in a list, which hold nothing either. Nor does the unused part of a stream's buffer.

use crate::blocks::Blocks;
use crate::buffers::Buffer;
use crate::data::{DataRule, DataWords};

/// Where in a block an object of CPython is, if there is one, and of what sort it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectLink(u8);

const WEAK: u8 = 1 << 7;
const COLLECTED: u8 = 1 << 6;
const IS: u8 = 1 << 5;
/// The bytes of the collector's words before an object.
const HEAD: u64 = 16;
/// `wr_object`, `wr_prev` and `wr_next` of a weak reference.
const OF_WEAK: [u64; 3] = [16, 40, 48];

impl ObjectLink {
    /// An object at a distance from its block's beginning.
    pub fn new(at: u64, collected: bool, weak: bool) -> ObjectLink {
        ObjectLink(IS | (at / 8) as u8 & 15 | if collected { COLLECTED } else { 0 } | if weak { WEAK } else { 0 })
    }

    /// The offset of the object in its block.
    pub fn at(self) -> Option<u64> {
        (self.0 & IS != 0).then_some(u64::from(self.0 & 15) * 8)
    }
}

/// The objects, data and buffers of all blocks.
#[derive(Debug, Default)]
pub struct Links {
    /// One item for each block. Empty if no block has an object.
    objects: Vec<ObjectLink>,
    /// The words that are data, and so hold nothing.
    pub data: DataWords,
    /// Buffers of streams, in the order of their blocks.
    buffers: Vec<Buffer>,
}

impl Links {
    /// Starts with the objects of all blocks, one for each block.
    pub fn new(objects: Vec<ObjectLink>) -> Links {
        Links { objects, ..Links::default() }
    }

    /// Adds buffers of streams: their used bytes are data, and the rest holds nothing. `blocks` is the number of all blocks.
    pub fn add_buffers(&mut self, blocks: usize, buffers: Vec<Buffer>) {
        buffers.iter().for_each(|buffer| self.data.set(blocks, buffer.block, DataRule::WHOLE));
        self.buffers = buffers;
    }

    /// The offset of the object in a block.
    pub fn object(&self, block: u32) -> Option<u64> {
        self.objects.get(block as usize)?.at()
    }

    /// Whether a word that leads to a block can hold it. It cannot if it points to the collector's words before an object.
    #[inline]
    pub fn counts(&self, blocks: &Blocks, to: u32, word: u64) -> bool {
        let Some(object) = self.objects.get(to as usize).filter(|object| object.0 & COLLECTED != 0) else {
            return true;
        };
        let head = (blocks.get(to).at + u64::from(object.0 & 15) * 8).wrapping_sub(HEAD);
        // The lowest bits are flags.
        blocks.address(word).wrapping_sub(head) >= 8
    }

    /// Whether the word of a block at this offset holds the block to which it leads.
    #[inline]
    pub fn holds(&self, from: u32, at: u64) -> bool {
        self.may_hold(from, at) && !self.data.has(from, at)
    }

    /// Whether the word of a block at this offset holds the block to which it leads, or is data that looks like a pointer.
    #[inline]
    pub fn may_hold(&self, from: u32, at: u64) -> bool {
        let Some(object) = self.objects.get(from as usize).filter(|object| object.0 & (WEAK | COLLECTED) != 0) else {
            let buffer = self.buffers.binary_search_by_key(&from, |buffer| buffer.block);
            return buffer.map_or(true, |buffer| self.buffers[buffer].uses(at));
        };
        let within = at.wrapping_sub(u64::from(object.0 & 15) * 8);
        // This includes the link of the first object, which points to the head of the collector's list in the interpreter's state.
        let is_link = object.0 & COLLECTED != 0 && within.wrapping_add(HEAD) < HEAD;
        !(is_link || object.0 & WEAK != 0 && OF_WEAK.contains(&within))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use allocanary_heap::{HeapBlock, Processor};

    #[test]
    fn links_of_the_collector_and_weak_references_hold_nothing() {
        let blocks = Blocks::new(
            vec![
                HeapBlock { at: 0x1000, bytes: 64 },
                HeapBlock { at: 0x2000, bytes: 96 },
                HeapBlock { at: 0x3000, bytes: 64 },
            ],
            Processor::X86_64,
        );
        let links =
            Links::new(vec![ObjectLink::new(16, true, false), ObjectLink::new(32, true, true), ObjectLink::default()]);
        assert!(!links.counts(&blocks, 0, 0x1000) && !links.counts(&blocks, 0, 0x1001), "with a flag");
        assert!(
            links.counts(&blocks, 0, 0x1010) && links.counts(&blocks, 1, 0x2000) && links.counts(&blocks, 2, 0x3000)
        );
        assert!(!links.counts(&blocks, 1, 0x2010));
        assert!(!links.holds(1, 32 + 16) && !links.holds(1, 32 + 40) && links.holds(1, 32 + 24) && links.holds(0, 32));
        assert!(
            !links.holds(0, 0) && !links.holds(0, 8) && links.holds(0, 16) && links.holds(2, 0),
            "links of the first"
        );
        assert_eq!((links.object(1), links.object(2)), (Some(32), None));
        let mut links = links;
        links.add_buffers(3, vec![Buffer { block: 2, used: [0..0, 0..9] }]);
        assert!(!links.holds(2, 0) && links.may_hold(2, 8) && !links.may_hold(2, 16), "of a buffer");
    }
}
