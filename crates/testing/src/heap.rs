//! Random use of an allocator, for the tests of those that stand around another. In: any `GlobalAlloc`, and steps. Out: what
//! became of each block; a panic where a block does not hold what was written to it.

use std::alloc::{GlobalAlloc, Layout};

use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_oneof};

/// One call. Blocks are named by their number among those that are alive, modulo how many there are.
#[derive(Clone, Copy, Debug)]
pub enum HeapStep {
    /// A new block of so many bytes, of zeros or not.
    New(usize, bool),
    /// Another size.
    Resize(usize, usize),
    /// The end.
    Free(usize),
}

/// Some steps; sizes of a few bytes up to some pages.
pub fn steps(most: usize) -> impl Strategy<Value = Vec<HeapStep>> {
    let size = || prop_oneof![1_usize..64, 1_usize..if cfg!(miri) { 300 } else { 20_000 }];
    let step = prop_oneof![
        (size(), any::<bool>()).prop_map(|(size, zeroed)| HeapStep::New(size, zeroed)),
        (any::<usize>(), size()).prop_map(|(at, size)| HeapStep::Resize(at, size)),
        any::<usize>().prop_map(HeapStep::Free),
    ];
    vec(step, 1..if cfg!(miri) { 30 } else { most })
}

/// Blocks of one allocator; frees them at its end.
pub struct TestBlocks<'a, A: GlobalAlloc> {
    allocator: &'a A,
    blocks: Vec<TestBlock>,
    made: u8,
}

/// One block that is alive.
pub struct TestBlock {
    start: *mut u8,
    layout: Layout,
    /// What every byte is.
    fill: u8,
}

impl<'a, A: GlobalAlloc> TestBlocks<'a, A> {
    /// No blocks yet.
    pub fn of(allocator: &'a A) -> Self {
        TestBlocks { allocator, blocks: Vec::with_capacity(1000), made: 0 }
    }

    /// Makes the call; what the block had and has now, in bytes. None where there is no block to resize or free.
    pub fn take(&mut self, step: HeapStep) -> Option<(usize, usize)> {
        match step {
            HeapStep::New(size, zeroed) => {
                let layout = Layout::from_size_align(size, 1 << (self.made % 6)).unwrap();
                // SAFETY: the size is not 0, here and in `Resize`.
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
                // SAFETY: the block is alive and of that layout.
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

    /// Gives the newest block away.
    pub fn give(&mut self) -> TestBlock {
        self.blocks.pop().expect("a block")
    }

    /// The sizes of those that are alive.
    pub fn sizes(&self) -> impl Iterator<Item = usize> {
        self.blocks.iter().map(|block| block.layout.size())
    }
}

// SAFETY: a block is its owner's alone, on whatever thread.
unsafe impl Send for TestBlock {}

impl TestBlock {
    /// Frees it, through this allocator.
    pub fn free(self, allocator: &impl GlobalAlloc) {
        self.check(self.layout.size());
        // SAFETY: the block is alive, of that layout, and used no more; it is of the allocator that this one stands around.
        unsafe { allocator.dealloc(self.start, self.layout) };
    }

    fn check(&self, bytes: usize) {
        // SAFETY: the block is alive, ours, and so many bytes of it were written.
        let bytes = unsafe { std::slice::from_raw_parts(self.start, bytes) };
        assert!(bytes.iter().all(|byte| *byte == self.fill), "wanted {} everywhere", self.fill);
    }

    fn write(&mut self, fill: u8) {
        self.fill = fill;
        // SAFETY: the block is alive, ours, and of that size.
        unsafe { self.start.write_bytes(fill, self.layout.size()) };
    }
}

impl<A: GlobalAlloc> Drop for TestBlocks<'_, A> {
    fn drop(&mut self) {
        while self.take(HeapStep::Free(0)).is_some() {}
    }
}
