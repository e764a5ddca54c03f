//! `Counting` and `Leaks` around jemalloc, one in the other, as the global allocator. A binary of its own, because its
//! allocator counts. In: blocks. Out: both counts equal jemalloc's own.
#![cfg(all(feature = "jemalloc", feature = "leaks"))]

use std::hint::black_box;
use std::thread;

use allocanary::{Counting, Leaks, counting};
use tikv_jemalloc_ctl::thread::{allocatedp, deallocatedp};
use tikv_jemallocator::Jemalloc;

#[global_allocator]
static GLOBAL: Leaks<Counting<Jemalloc>> = Leaks::new(Counting::new(Jemalloc));

/// The bytes that the current thread has allocated and freed in the call, by jemalloc's own count: whole size classes.
fn of_jemalloc<T>(call: impl FnOnce() -> T) -> (T, u64, u64) {
    let (allocated, freed) = (allocatedp::read().unwrap(), deallocatedp::read().unwrap());
    let before = (allocated.get(), freed.get());
    let value = call();
    (value, allocated.get() - before.0, freed.get() - before.1)
}

#[test]
fn jemalloc_and_the_counter_agree() {
    // All sizes are whole size classes, so that jemalloc counts the requested sizes.
    let work = || {
        let mut kept = vec![1_u8; 4096];
        drop(black_box(vec![0_u8; 512]));
        kept.reserve_exact(black_box(8192 - 4096));
        black_box(kept)
    };
    let ((kept, counts), allocated, freed) = of_jemalloc(|| counting::count(work));
    assert_eq!((counts.allocations, counts.frees, counts.reallocations), (2, 1, 1));
    assert_eq!((counts.bytes, counts.freed, counts.live), (8192 + 512, 512, 8192));
    // jemalloc counts a reallocation that moves as an allocation and a free.
    assert_eq!(allocated - freed, counts.live as u64);
    assert!(allocated >= counts.bytes, "{allocated}");
    let (_, _, freed) = of_jemalloc(|| drop(kept));
    assert_eq!(freed, 8192);
}

#[test]
fn alignment_and_zeros_are_kept() {
    #[repr(align(4096))]
    struct Page([u8; 4096]);
    let (page, counts) = counting::count(|| black_box(Box::new(Page([7; 4096]))));
    assert_eq!((counts.allocations, counts.bytes), (1, 4096));
    assert!((&raw const *page).addr().is_multiple_of(4096) && page.0[4095] == 7);
    drop(black_box(vec![1_u8; 100_000]));
    assert!(black_box(vec![0_u8; 100_000]).iter().all(|byte| *byte == 0));
}

#[inline(never)]
fn leaks_a_block() {
    std::mem::forget(black_box(vec![1_u8; 12_345]));
}

#[test]
fn a_leak_is_found_whoever_made_it() {
    (0..4).map(|_| thread::spawn(leaks_a_block)).for_each(|thread| thread.join().unwrap());
    let report = GLOBAL.report_top(usize::MAX);
    let sites = report.sites.iter().filter(|site| site.function.ends_with("::leaks_a_block"));
    let found = sites.fold((0, 0), |(blocks, bytes), site| (blocks + site.sum.blocks, bytes + site.sum.bytes));
    assert_eq!(found, (4, 4 * 12_345), "{report}");
}
