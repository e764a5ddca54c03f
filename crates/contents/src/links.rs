//! Words that point to a block and do not hold it. In: which blocks are objects of CPython. Out: whether a pointer counts.
//!
//! Its collector links all objects that it looks after by two words before each object: they hold nothing, and everything would be reached
//! by them. They point to the words before an object, and all other pointers to the object itself. A weak reference has a pointer to its
//! object and to its neighbours in a list. Nor does the unused part of a stream's buffer hold anything.

use crate::blocks::Blocks;
use crate::buffers::Buffer;
use crate::data::{DataRule, DataWords};

/// What is known of one block: nothing, or where in it an object is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectLink(u8);

const WEAK: u8 = 1 << 7;
const COLLECTED: u8 = 1 << 6;
const IS: u8 = 1 << 5;
/// The collector's words before an object.
const HEAD: u64 = 16;
/// `wr_object`, `wr_prev` and `wr_next` of a weak reference.
const OF_WEAK: [u64; 3] = [16, 40, 48];

impl ObjectLink {
    /// An object at a distance from its block's beginning.
    pub fn new(at: u64, collected: bool, weak: bool) -> ObjectLink {
        ObjectLink(IS | (at / 8) as u8 & 15 | if collected { COLLECTED } else { 0 } | if weak { WEAK } else { 0 })
    }

    /// Where it is.
    pub fn at(self) -> Option<u64> {
        (self.0 & IS != 0).then_some(u64::from(self.0 & 15) * 8)
    }
}

/// What is known of all blocks.
#[derive(Debug, Default)]
pub struct Links {
    /// Empty where no block is an object.
    objects: Vec<ObjectLink>,
    /// Words that are data: what they lead to is not held by them.
    pub data: DataWords,
    /// Buffers of streams, in the order of their blocks.
    buffers: Vec<Buffer>,
}

impl Links {
    /// With what is known of each block.
    pub fn new(objects: Vec<ObjectLink>) -> Links {
        Links { objects, ..Links::default() }
    }

    /// Adds buffers: what is in use is data, and the rest holds nothing. `blocks`: how many blocks there are.
    pub fn add_buffers(&mut self, blocks: usize, buffers: Vec<Buffer>) {
        buffers.iter().for_each(|buffer| self.data.set(blocks, buffer.block, DataRule::WHOLE));
        self.buffers = buffers;
    }

    /// The object in a block.
    pub fn object(&self, block: u32) -> Option<u64> {
        self.objects.get(block as usize)?.at()
    }

    /// Whether a word that leads to a block can hold it: it does not point to what the collector has before an object.
    #[inline]
    pub fn counts(&self, blocks: &Blocks, to: u32, word: u64) -> bool {
        let Some(object) = self.objects.get(to as usize).filter(|object| object.0 & COLLECTED != 0) else {
            return true;
        };
        let head = (blocks.get(to).at + u64::from(object.0 & 15) * 8).wrapping_sub(HEAD);
        // The lowest bits are flags.
        (word & crate::blocks::ADDRESS).wrapping_sub(head) >= 8
    }

    /// Whether a word of a block holds what it leads to.
    #[inline]
    pub fn holds(&self, from: u32, at: u64) -> bool {
        self.may_hold(from, at) && !self.data.has(from, at)
    }

    /// Whether a word of a block holds what it leads to, or is data that looks like a pointer.
    #[inline]
    pub fn may_hold(&self, from: u32, at: u64) -> bool {
        let Some(object) = self.objects.get(from as usize).filter(|object| object.0 & (WEAK | COLLECTED) != 0) else {
            let buffer = self.buffers.binary_search_by_key(&from, |buffer| buffer.block);
            return buffer.map_or(true, |buffer| self.buffers[buffer].uses(at));
        };
        let within = at.wrapping_sub(u64::from(object.0 & 15) * 8);
        // The first object of the collector's list is linked to the list's head, in the state of the interpreter.
        let is_link = object.0 & COLLECTED != 0 && within.wrapping_add(HEAD) < HEAD;
        !(is_link || object.0 & WEAK != 0 && OF_WEAK.contains(&within))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use allocanary_heap::HeapBlock;

    #[test]
    fn links_of_the_collector_and_weak_references_hold_nothing() {
        let blocks = Blocks::new(vec![
            HeapBlock { at: 0x1000, bytes: 64 },
            HeapBlock { at: 0x2000, bytes: 96 },
            HeapBlock { at: 0x3000, bytes: 64 },
        ]);
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
