use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::any;

use super::*;

fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).unwrap()
}

impl Pool<'_> {
    fn of(&self, size: usize) -> *mut u8 {
        self.alloc(layout(size, 16), false)
    }

    /// How many of the first bytes of a block's span are 1. Pages that the kernel took back are zeros.
    fn ones(&self, block: *mut u8, size: usize) -> usize {
        let (first, class) = self.span_of(block);
        assert!(size <= PAGE << order_of(class));
        // SAFETY: a range of the pool's mapping, which nobody writes to.
        let bytes = unsafe { std::slice::from_raw_parts(self.at(first * PAGE), size) };
        assert!(bytes.iter().all(|byte| *byte <= 1));
        bytes.iter().filter(|byte| **byte == 1).count()
    }
}

/// Blocks do not overlap, keep the bytes that were written to them, have their alignment, and are zeros if zeros were
/// requested.
#[test]
#[cfg_attr(miri, ignore = "Miri has no shared mappings")]
fn fuzz_blocks_are_one_s_own_until_they_are_freed() {
    let steps = vec((any::<bool>(), any::<usize>(), 0_usize..5000, 0_u32..14, any::<bool>()), 1..600);
    allocanary_testing::fuzz::holds(60, 1, steps, |steps| {
        let notes = Notes::new().unwrap();
        let pool = Pool::new(&notes).unwrap();
        let mut live: BTreeMap<usize, (*mut u8, usize, u8)> = BTreeMap::new();
        for (at, (frees, which, size, log2, zeroed)) in steps.into_iter().enumerate() {
            if frees && !live.is_empty() {
                let key = *live.keys().nth(which % live.len()).unwrap();
                let (block, size, byte) = live.remove(&key).unwrap();
                // SAFETY: a live block of that size.
                unsafe {
                    assert!(std::slice::from_raw_parts(block, size).iter().all(|found| *found == byte));
                    pool.free(block);
                }
                continue;
            }
            // Many blocks of few sizes, and some large blocks that have a span each.
            let size = if which % 4 > 0 { size % 100 + 1 } else { size * 5 + 1 };
            let align = if which % 3 == 0 { 1 << log2 } else { 16 };
            let block = pool.alloc(layout(size, align), zeroed);
            assert!(pool.has(block) && block.addr().is_multiple_of(align.max(16)), "{size} {align}");
            let (before, behind) = (live.range(..=block.addr()).next_back(), live.range(block.addr()..).next());
            assert!(before.is_none_or(|(other, (_, length, _))| other + length <= block.addr()));
            assert!(behind.is_none_or(|(other, _)| block.addr() + size <= *other));
            let byte = at as u8 | 1;
            // SAFETY: the new block has that size.
            unsafe {
                assert!(!zeroed || std::slice::from_raw_parts(block, size).iter().all(|found| *found == 0));
                block.write_bytes(byte, size);
            }
            live.insert(block.addr(), (block, size, byte));
        }
    });
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no shared mappings")]
fn blocks_of_one_class_lie_side_by_side_and_one_that_was_freed_is_used_again() {
    let notes = Notes::new().unwrap();
    let pool = Pool::new(&notes).unwrap();
    let blocks: Vec<*mut u8> = (0..64).map(|_| pool.of(60)).collect();
    assert!(blocks.windows(2).all(|pair| pair[1].addr() - pair[0].addr() == 64), "{blocks:?}");
    assert_eq!(blocks[0].addr() % PAGE, 0);
    let other = pool.of(100);
    assert!(other.addr() / PAGE != blocks[0].addr() / PAGE);
    // SAFETY: live blocks.
    unsafe {
        pool.free(blocks[7]);
        pool.free(blocks[9]);
    }
    assert_eq!([pool.of(64), pool.of(50)], [blocks[9], blocks[7]]);
    let full = pool.of(64);
    assert!(full.addr() / PAGE != blocks[0].addr() / PAGE, "the span is full");
    assert!(pool.resize(full, layout(50, 16)) && !pool.resize(full, layout(65, 16)));
    assert!(pool.alloc(layout(5 << 30, 16), false).is_null(), "larger than any class");
    assert!(!pool.has(null_mut()) && !pool.has((&raw const notes).cast_mut().cast()));
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no shared mappings")]
fn a_span_without_a_block_gives_its_pages_back_but_for_one_of_each_class() {
    let notes = Notes::new().unwrap();
    let pool = Pool::new(&notes).unwrap();
    let touched = |size| {
        let block = pool.of(size);
        // SAFETY: the new block has that size.
        unsafe { block.write_bytes(1, size) };
        block
    };
    let large: Vec<*mut u8> = (0..3).map(|_| touched(40_000)).collect();
    assert_eq!(pool.ones(large[0], 40_000), 40_000);
    // SAFETY: live blocks.
    large.iter().for_each(|block| unsafe { pool.free(*block) });
    assert_eq!(large.iter().map(|block| pool.ones(*block, 40_000)).collect::<Vec<_>>(), [40_000, 0, 0]);
    let again = touched(40_000);
    assert_eq!(again, large[0], "what was kept is used first");
    assert_eq!(touched(33_000), large[2], "its addresses are for every class of such spans");
    let huge = touched(KEPT + 1);
    // SAFETY: a live block.
    unsafe { pool.free(huge) };
    assert_eq!(pool.ones(huge, KEPT + 1), 0, "a large one is not kept");
}
