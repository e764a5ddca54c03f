//! The blocks and their bytes, in which kinds are searched. With a sample, only the bytes of its blocks are copied. All others are still
//! read, piece by piece, because any block can have the pointer that proves another block's kind.

use allocanary_heap::{HeapBlock, Memory, MemoryCopy, PIECE};

use crate::blocks::Blocks;
use crate::languages::Languages;
use crate::modules::{ModuleList, Open};
use crate::roots::Root;
use crate::sample::part::PageSample;

/// The blocks, and the data of the process that kinds need.
pub struct TypedBlocks<'a> {
    /// The copy.
    pub copy: &'a MemoryCopy<'a>,
    /// The blocks.
    pub blocks: &'a Blocks,
    /// The sample of blocks that are examined; `None` for all.
    pub sample: Option<&'a PageSample>,
    /// The program and its libraries.
    pub modules: &'a ModuleList,
    /// The roots.
    pub roots: &'a [Root],
    /// The languages of the process.
    pub languages: Languages,
    /// Opens the file of a mapping.
    pub open: &'a Open<'a>,
}

/// Pieces overlap by this many bytes, so that one of them has each container as a whole.
const OVERLAP: u64 = 128;

impl TypedBlocks<'_> {
    /// The words of a block, as far as they were copied.
    pub fn words(&self, block: u32) -> WordSlice<'_> {
        let one = self.blocks.get(block);
        WordSlice(self.copy.bytes(one.at, one.bytes).unwrap_or_default())
    }

    /// The word at an address, if it was copied.
    pub fn word(&self, at: u64) -> Option<u64> {
        self.copy.copied(at)
    }

    /// The word at an address in read-only memory, such as a table of functions.
    pub fn constant(&self, at: u64) -> Option<u64> {
        self.copy.word(at)
    }

    /// Visits each block with its bytes. A long block may come in several pieces.
    pub fn each_block(&self, mut visit: impl FnMut(u32, HeapBlock, &[u8])) {
        if self.sample.is_none() {
            self.blocks.iter().for_each(|(index, block)| visit(index, block, self.words(index).0));
            return;
        }
        let (mut bytes, mut next) = (Vec::new(), 0);
        let count = self.blocks.len() as u32;
        while next < count {
            let from = self.blocks.get(next).at;
            let end = |index: u32| self.blocks.get(index).at + self.blocks.get(index).bytes;
            // Reads many small blocks at once.
            let mut after = next + 1;
            while after < count && end(after) - from <= PIECE {
                after += 1;
            }
            bytes.resize((end(after - 1) - from).min(PIECE) as usize, 0);
            let together = end(after - 1) - from <= PIECE && self.copy.read(from, &mut bytes);
            for index in next..after {
                let block = self.blocks.get(index);
                if together {
                    let place = (block.at - from) as usize;
                    visit(index, block, &bytes[place..place + block.bytes as usize]);
                } else {
                    self.each_piece(block.at, block.at + block.bytes, |piece| visit(index, block, piece));
                }
            }
            next = after;
        }
    }

    /// Visits the bytes of a range that were copied or are resident, piece by piece.
    pub fn each_piece(&self, from: u64, to: u64, mut visit: impl FnMut(&[u8])) {
        let mut at = from.next_multiple_of(8);
        if self.sample.is_none() {
            while at < to {
                match self.copy.bytes(at, to - at) {
                    Some(bytes) => {
                        visit(bytes);
                        at += bytes.len().next_multiple_of(8) as u64;
                    }
                    None => at = self.copy.next(at, to),
                }
            }
            return;
        }
        let mut bytes = Vec::new();
        for run in self.copy.pages().within(at, to).filter(|run| run.state.is_resident()) {
            let mut at = run.from;
            loop {
                bytes.resize((run.to - at).min(PIECE) as usize, 0);
                if self.copy.read(at, &mut bytes) {
                    visit(&bytes);
                }
                if at + bytes.len() as u64 >= run.to {
                    break;
                }
                at += PIECE - OVERLAP;
            }
        }
    }
}

/// Bytes as a row of words.
#[derive(Clone, Copy)]
pub struct WordSlice<'a>(pub &'a [u8]);

impl WordSlice<'_> {
    /// The word with this index.
    #[inline]
    pub fn get(&self, index: usize) -> Option<u64> {
        let bytes = self.0.get(8 * index..8 * index + 8)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }

    /// The number of whole words.
    pub fn len(&self) -> usize {
        self.0.len() / 8
    }
}
