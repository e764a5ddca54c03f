//! A `Leaks` that is not the global allocator, checked against a model. So it also runs under Miri.

use std::alloc::System;
use std::sync::atomic::Ordering::Relaxed;

use super::*;
use allocanary_testing::fuzz::holds;
use allocanary_testing::heap::{HeapStep, TestBlocks, steps};

#[test]
fn fuzz_what_is_alive_is_what_a_model_holds() {
    holds(64, 2, steps(300), |steps| {
        let leaks = Leaks::new(System).capacity(300);
        let mut heap = TestBlocks::of(&leaks);
        for step in steps {
            heap.take(step);
            let alive = leaks.alive();
            assert_eq!(alive.blocks, heap.sizes().count() as u64, "after {step:?}");
            assert_eq!(alive.bytes, heap.sizes().sum::<usize>() as u64, "after {step:?}");
        }
        drop(heap);
        assert_eq!((leaks.alive().blocks, leaks.unrecorded_blocks.load(Relaxed)), (0, 0));
    });
}

/// There are fewer places than blocks, and blocks are sampled. A block without a record changes nothing, and no record
/// is left at the end.
#[test]
fn fuzz_blocks_without_a_record_are_blocks() {
    holds(64, 2, (steps(300), 1_usize..8, 1_u64..400), |(steps, capacity, sampling)| {
        for leaks in [Leaks::new(System).capacity(capacity), Leaks::new(System).sampling(sampling)] {
            let mut heap = TestBlocks::of(&leaks);
            for step in &steps {
                heap.take(*step);
                let alive = leaks.alive();
                assert!(alive.blocks <= heap.sizes().count() as u64, "after {step:?}: {alive:?}");
                assert!(alive.bytes <= heap.sizes().sum::<usize>() as u64, "after {step:?}: {alive:?}");
            }
            drop(heap);
            assert_eq!(leaks.alive().blocks, 0);
        }
    });
}

#[test]
fn what_was_made_while_it_was_paused_is_not_known() {
    let leaks = Leaks::new(System).capacity(8).paused();
    let mut heap = TestBlocks::of(&leaks);
    heap.take(HeapStep::New(100, false));
    leaks.start();
    heap.take(HeapStep::New(10, true));
    heap.take(HeapStep::New(1, true));
    assert_eq!((leaks.alive().blocks, leaks.alive().bytes), (2, 11));
    leaks.stop();
    // A block that has a record keeps it.
    heap.take(HeapStep::Resize(1, 50));
    heap.take(HeapStep::Resize(2, 3000));
    assert_eq!((leaks.alive().blocks, leaks.alive().bytes), (2, 3050));
    drop(heap);
    assert_eq!(leaks.alive().blocks, 0);
}

/// If a later capacity had an effect, a larger one would exceed the table's memory, and with a smaller one records would be
/// searched in other places.
#[test]
fn a_capacity_after_the_first_record_changes_nothing() {
    for later in [1 << 20, 300, 1] {
        let leaks = Leaks::new(System).capacity(8);
        let mut heap = TestBlocks::of(&leaks);
        (0..5).for_each(|_| _ = heap.take(HeapStep::New(10, false)));
        let blocks: Vec<_> = (0..5).map(|_| heap.give()).collect();
        drop(heap);
        let leaks = leaks.paused().capacity(later);
        assert_eq!((leaks.alive().blocks, leaks.alive().bytes), (5, 50), "{later}");
        leaks.start();
        let mut heap = TestBlocks::of(&leaks);
        (0..5).for_each(|_| _ = heap.take(HeapStep::New(10, false)));
        assert_eq!((leaks.alive().blocks, leaks.unrecorded_blocks.load(Relaxed)), (8, 2), "{later}");
        blocks.into_iter().for_each(|block| block.free(&leaks));
        drop(heap);
        assert_eq!(leaks.alive().blocks, 0, "{later}");
    }
}
