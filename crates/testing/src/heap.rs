//! Uses an allocator at random, for the tests of allocators that wrap another one. It panics if a block does not contain what was written
//! to it.

use std::alloc::{GlobalAlloc, Layout};

use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_oneof};

/// One call of the allocator. `Resize` and `Free` choose a live block by its index, modulo the number of live blocks.
#[derive(Clone, Copy, Debug)]
pub enum HeapStep {
    /// Allocates a block: its size in bytes, and whether its bytes must be zero.
    New(usize, bool),
    /// Resizes a block: its index, and its new size in bytes.
    Resize(usize, usize),
    /// Frees the block with this index.
    Free(usize),
}

/// Up to `most` random steps. Blocks have sizes from 1 byte to a few pages.
pub fn steps(most: usize) -> impl Strategy<Value = Vec<HeapStep>> {
    let size = || prop_oneof![1_usize..64, 1_usize..if cfg!(miri) { 300 } else { 20_000 }];
    let step = prop_oneof![
        (size(), any::<bool>()).prop_map(|(size, zeroed)| HeapStep::New(size, zeroed)),
        (any::<usize>(), size()).prop_map(|(at, size)| HeapStep::Resize(at, size)),
        any::<usize>().prop_map(HeapStep::Free),
    ];
    vec(step, 1..if cfg!(miri) { 30 } else { most })
}

/// The live blocks of one allocator. The destructor frees them.
pub struct TestBlocks<'a, A: GlobalAlloc> {
    allocator: &'a A,
    blocks: Vec<TestBlock>,
    made: u8,
}

/// A live block.
pub struct TestBlock {
    start: *mut u8,
    layout: Layout,
    /// The value of each of its bytes.
    fill: u8,
}

impl<'a, A: GlobalAlloc> TestBlocks<'a, A> {
    /// Starts without blocks.
    pub fn of(allocator: &'a A) -> Self {
        TestBlocks { allocator, blocks: Vec::with_capacity(1000), made: 0 }
    }

    /// Makes the call. Returns the block's size in bytes before and after the call; 0 if it did not exist. `None` if there is no block to
    /// resize or free.
    pub fn take(&mut self, step: HeapStep) -> Option<(usize, usize)> {
        match step {
            HeapStep::New(size, zeroed) => {
                let layout = Layout::from_size_align(size, 1 << (self.made % 6)).unwrap();
                // SAFETY: the size is not 0, here and in `Resize`: `steps` draws sizes from 1 on, and no test passes 0 itself.
                let start =
                    unsafe { if zeroed { self.allocator.alloc_zeroed(layout) } else { self.allocator.alloc(layout) } };
                assert!(!start.is_null() && start.addr().is_multiple_of(layout.align()));
                let mut block = TestBlock { start, layout, fill: 0 };
                if zeroed {
                    block.check(size);
                }
                self.made = self.made.wrapping_add(1);
                block.write(self.made);
                self.blocks.push(block);
                Some((0, size))
            }
            HeapStep::Resize(at, size) => {
                let at = at.checked_rem(self.blocks.len())?;
                let &TestBlock { start, layout, fill } = &self.blocks[at];
                // SAFETY: the block is alive, and this is its layout. The new size is not 0.
                let start = unsafe { self.allocator.realloc(start, layout, size) };
                assert!(!start.is_null() && start.addr().is_multiple_of(layout.align()));
                let new = Layout::from_size_align(size, layout.align()).unwrap();
                let block = &mut self.blocks[at];
                *block = TestBlock { start, layout: new, fill };
                block.check(size.min(layout.size()));
                block.write(fill);
                Some((layout.size(), size))
            }
            HeapStep::Free(at) => {
                let at = at.checked_rem(self.blocks.len())?;
                let block = self.blocks.swap_remove(at);
                let size = block.layout.size();
                block.free(self.allocator);
                Some((size, 0))
            }
        }
    }

    /// Removes the newest block. The caller must free it.
    pub fn give(&mut self) -> TestBlock {
        self.blocks.pop().expect("a block")
    }

    /// The sizes of the live blocks, in bytes.
    pub fn sizes(&self) -> impl Iterator<Item = usize> {
        self.blocks.iter().map(|block| block.layout.size())
    }
}

// SAFETY: only the owner of a `TestBlock` uses the block's memory, whichever thread it is in.
unsafe impl Send for TestBlock {}

impl TestBlock {
    /// Checks the block's bytes and frees it with `allocator`.
    pub fn free(self, allocator: &impl GlobalAlloc) {
        self.check(self.layout.size());
        // SAFETY: the block is alive, has this layout, and is not used later. `allocator` wraps the allocator that made the block.
        unsafe { allocator.dealloc(self.start, self.layout) };
    }

    fn check(&self, bytes: usize) {
        // SAFETY: the block is alive and nothing else uses it. At least `bytes` of its bytes are initialized: they were zeroed or written.
        let bytes = unsafe { std::slice::from_raw_parts(self.start, bytes) };
        assert!(bytes.iter().all(|byte| *byte == self.fill), "wanted {} everywhere", self.fill);
    }

    fn write(&mut self, fill: u8) {
        self.fill = fill;
        // SAFETY: the block is alive, nothing else uses it, and it has this size.
        unsafe { self.start.write_bytes(fill, self.layout.size()) };
    }
}

impl<A: GlobalAlloc> Drop for TestBlocks<'_, A> {
    fn drop(&mut self) {
        while self.take(HeapStep::Free(0)).is_some() {}
    }
}
