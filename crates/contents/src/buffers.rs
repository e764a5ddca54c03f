//! Finds the buffers of C's standard streams, and which bytes of them are in use.
//!
//! A buffer is often memory that had another use before, such as an array of pointers, and only a short text at its beginning is written to
//! it. Bytes that the stream has neither to write nor to read hold no blocks: they are old.
//!
//! A `FILE` of glibc begins with a number whose upper half is 0xfbad. Eight pointers into the buffer follow.

use std::ops::Range;

use allocanary_heap::MemoryCopy;

use crate::blocks::Blocks;
use crate::roots::{Root, RootKind};

/// The upper half of a stream's first four bytes.
const MARK: u64 = 0xfbad;
/// The places of its pointers, in words: the next byte to read and the end of these; the first byte to write and the end of these; the
/// begin and the end of the buffer.
const READ: [usize; 2] = [1, 2];
const WRITTEN: [usize; 2] = [4, 5];
const BUFFER: [usize; 2] = [7, 8];
const WORDS: usize = 9;
/// The possible sizes of a block that begins with a stream.
const STREAM: Range<u64> = 216..4096;

/// A buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// The index of its block.
    pub block: u32,
    /// The used ranges, as distances from the block's beginning. Both can be empty.
    pub used: [Range<u64>; 2],
}

/// All buffers, in the order of their blocks.
pub fn find(copy: &MemoryCopy, blocks: &Blocks, roots: &[Root]) -> Vec<Buffer> {
    let mut found = Vec::new();
    let is_global = |root: &&Root| matches!(root.place, RootKind::Global(_));
    for root in roots.iter().filter(is_global) {
        copy.each_word(root.from..root.to, |at, word| {
            if word >> 16 & 0xffff == MARK {
                found.extend(buffer(copy, blocks, at));
            }
        });
    }
    for (_, block) in blocks.iter().filter(|(_, block)| STREAM.contains(&block.bytes)) {
        if copy.copied(block.at).is_some_and(|word| word >> 16 & 0xffff == MARK) {
            found.extend(buffer(copy, blocks, block.at));
        }
    }
    found.sort_by_key(|buffer| buffer.block);
    found.dedup_by_key(|buffer| buffer.block);
    found
}

/// The buffer of the stream at an address, if there is a stream whose buffer is a block.
fn buffer(copy: &MemoryCopy, blocks: &Blocks, at: u64) -> Option<Buffer> {
    let mut words = [0; WORDS];
    for (place, word) in (0..).zip(&mut words).skip(1) {
        *word = copy.copied(at.checked_add(8 * place)?)?;
    }
    let [from, to] = BUFFER.map(|place| words[place]);
    let block = blocks.at(from)?;
    let fits = from < to && to - from <= blocks.get(block).bytes;
    let inside = words[1..].iter().all(|word| (from..=to).contains(word));
    let used = |[first, end]: [usize; 2]| words[first] - from..words[end].max(words[first]) - from;
    (fits && inside).then(|| Buffer { block, used: [used(READ), used(WRITTEN)] })
}

impl Buffer {
    /// Whether the word at this distance from the block's beginning has a used byte.
    pub fn uses(&self, at: u64) -> bool {
        self.used.iter().any(|used| at < used.end && used.start < at + 8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::{FakeHeap, blocks, globals};

    const GLOBALS: u64 = 0x10_0000;
    const HEAP: u64 = 0x1_0000_0000;

    #[test]
    fn a_stream_says_what_of_its_buffer_is_in_use() {
        let mut made = FakeHeap::of(&[(GLOBALS, 4096), (HEAP, 8192)]);
        let stream = |buffer: u64, read: u64, written: u64| {
            let [end, read, written] = [1024, read, written].map(|bytes| buffer + bytes);
            [0xfbad_2084, buffer, read, buffer, buffer, written, end, buffer, end]
        };
        made.put(GLOBALS + 64, &stream(HEAP, 0, 20));
        made.put(HEAP + 1024, &stream(HEAP + 2048, 9, 0));
        // One whose pointers lead elsewhere, and one without a buffer.
        made.put(GLOBALS + 256, &[0xfbad_2084, 1, 2, 3, 4, 5, 6, HEAP + 4096, HEAP + 5120]);
        made.put(GLOBALS + 512, &[0xfbad_2084]);
        let blocks = blocks([(HEAP, 1032), (HEAP + 1040, 552), (HEAP + 2048, 1032), (HEAP + 4096, 1032)]);
        assert!(find(&made.copy(), &blocks, &globals(GLOBALS)).len() == 1, "no block begins with the second one");
        let blocks = crate::made::blocks([(HEAP, 1000), (HEAP + 1024, 552), (HEAP + 2048, 1032)]);
        let found = find(&made.copy(), &blocks, &globals(GLOBALS));
        assert_eq!(found, [Buffer { block: 2, used: [0..9, 0..0] }], "the first buffer does not fit its block");
        assert_eq!([0, 8, 16].map(|at| found[0].uses(at)), [true, true, false]);
    }
}
