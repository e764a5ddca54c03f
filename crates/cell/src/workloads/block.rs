//! A block of memory that can check its content. In: a size and a tag. Out: whether the content is unchanged.

/// A heap block filled with one word, its tag.
pub struct TaggedBlock {
    words: Box<[u64]>,
    tag: u64,
}

impl TaggedBlock {
    /// Allocates `bytes` (rounded up to 8, at least 8) and writes every word of them.
    #[inline]
    pub fn new(bytes: usize, tag: u64) -> Self {
        let length = bytes.div_ceil(8).max(1);
        // Not `vec![tag; n]`: for a tag of 0 that calls calloc, which is another path through the allocator.
        let mut words = Vec::with_capacity(length);
        words.resize(length, tag);
        TaggedBlock { words: words.into_boxed_slice(), tag }
    }

    /// The bytes that were requested from the allocator.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.words.len() as u64 * 8
    }

    /// The word with which it was filled.
    #[inline]
    pub fn tag(&self) -> u64 {
        self.tag
    }

    /// Reads every word. Returns whether all words are equal to the tag.
    #[inline]
    pub fn is_intact(&self) -> bool {
        self.words.iter().fold(0, |difference, word| difference | (word ^ self.tag)) == 0
    }

    /// Checks the content and frees the block. Panics if another block's owner has written here. The panic ends the
    /// cell, and its text becomes the row's error.
    #[inline]
    pub fn check_and_free(self) {
        assert!(self.is_intact(), "a block of {} bytes, tag {:#x}, was overwritten", self.bytes(), self.tag);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_knows_its_content() {
        let mut block = TaggedBlock::new(100, 7);
        assert_eq!(block.bytes(), 104);
        assert!(block.is_intact());
        block.words[12] = 8;
        assert!(!block.is_intact());
    }

    #[test]
    #[should_panic(expected = "was overwritten")]
    fn a_foreign_write_ends_the_run() {
        let mut block = TaggedBlock::new(8, 1);
        block.words[0] = 0;
        block.check_and_free();
    }
}
