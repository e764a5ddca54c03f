//! A `Counting` that is not the global allocator, checked against a model. So it also runs under Miri.

use std::alloc::System;

use super::*;
use allocanary_testing::fuzz::holds;
use allocanary_testing::heap::{HeapStep, TestBlocks, steps};

#[test]
fn fuzz_counts_are_those_of_a_model() {
    holds(64, 6, steps(300), |steps| {
        let counting = Counting::new(System);
        let tally = pool::mine().expect("this thread lives");
        let before = tally.read();
        let lap = Lap { tally, peak: tally.start_peak() };
        let mut heap = TestBlocks::of(&counting);
        let mut model = Counts::default();
        for step in steps {
            let Some((old, new)) = heap.take(step) else { continue };
            match step {
                HeapStep::New(..) => model.allocations += 1,
                HeapStep::Resize(..) => model.reallocations += 1,
                HeapStep::Free(_) => model.frees += 1,
            }
            model.bytes += new.saturating_sub(old) as u64;
            model.freed += old.saturating_sub(new) as u64;
            model.live += new as i64 - old as i64;
            model.peak = model.peak.max(model.live as u64);
            assert_eq!(tally.read().since(&before), model, "after {step:?}");
        }
        assert_eq!(model.live, heap.sizes().sum::<usize>() as i64);
        drop(heap);
        let end = tally.read().since(&before);
        assert_eq!((end.live, end.frees, end.peak), (0, model.allocations, model.peak));
        drop(lap);
    });
}

#[test]
fn a_block_that_another_thread_frees_is_counted_there() {
    let counting = Counting::new(System);
    let tally = pool::mine().expect("this thread lives");
    let before = tally.read();
    let mut heap = TestBlocks::of(&counting);
    heap.take(HeapStep::New(100, false));
    assert_eq!(tally.read().since(&before).live, 100);
    let block = heap.give();
    std::thread::spawn(move || {
        let tally = pool::mine().expect("this thread lives");
        let before = tally.read();
        block.free(&Counting::new(System));
        let counts = tally.read().since(&before);
        assert_eq!((counts.frees, counts.freed, counts.live), (1, 100, -100));
    })
    .join()
    .unwrap();
    assert_eq!(tally.read().since(&before).live, 100, "not counted here");
}
