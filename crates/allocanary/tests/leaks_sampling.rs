//! `Leaks` as the global allocator, sampling. A binary of its own, because its allocator records, and of several in one
//! program only one may sample.

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;

use allocanary::Leaks;

const MEAN: u64 = 64 << 10;

#[global_allocator]
static GLOBAL: Leaks<System> = Leaks::new(System).sampling(MEAN);

/// Beside it one that records every block.
static EVERY: Leaks<System> = Leaks::new(System);

#[inline(never)]
fn small_blocks() -> Vec<Vec<u8>> {
    (0..200_000).map(|_| black_box(vec![1_u8; 200])).collect()
}

#[inline(never)]
fn large_blocks() -> Vec<Vec<u8>> {
    (0..500).map(|_| black_box(vec![0_u8; 100_000])).collect()
}

/// The estimate of what the function left alive in blocks of the size, and how many were sampled.
fn estimate(function: &str, size: u64) -> (f64, f64, u64) {
    let report = GLOBAL.report_top(usize::MAX);
    let sites = report.sites.iter().filter(|site| site.function.contains(function));
    let sites: Vec<_> = sites.filter(|site| site.sum.bytes == site.sum.blocks * size).collect();
    let blocks = sites.iter().map(|site| site.sum.estimated_blocks).sum();
    let bytes = sites.iter().map(|site| site.sum.estimated_bytes).sum();
    (blocks, bytes, sites.iter().map(|site| site.sum.blocks).sum())
}

#[test]
fn the_estimate_is_within_its_statistical_bound() {
    let kept = (small_blocks(), large_blocks());
    for (function, size, count) in [("small_blocks", 200, 200_000.0_f64), ("large_blocks", 100_000, 500.0)] {
        let (blocks, bytes, sampled) = estimate(function, size);
        let chance = 1.0 - (-(size as f64) / MEAN as f64).exp();
        // Of a binomial count: five standard errors, which one run in two million leaves.
        let error = 5.0 * (count * (1.0 - chance) / chance).sqrt();
        assert!((blocks - count).abs() < error, "{function}: {blocks} of {count} +- {error}, sampled {sampled}");
        assert!((bytes / blocks - size as f64).abs() < 1e-6 * size as f64, "{function}: {bytes}");
        assert!((sampled as f64) < 0.9 * count && sampled > 100, "{function}: {sampled} sampled");
    }
    drop(kept);
    for (function, size) in [("small_blocks", 200), ("large_blocks", 100_000)] {
        assert_eq!(estimate(function, size), (0.0, 0.0, 0), "{function}: all of it was freed");
    }
    let text = GLOBAL.report().to_string();
    assert!(text.contains("estimated from a sample of one in 64.0 KiB"), "{text}");
}

#[test]
fn one_that_records_every_block_does_so_beside_one_that_samples() {
    drop(black_box(vec![1_u8; 10 << 20])); // the sampling one has drawn its way to the next hit
    let layout = Layout::from_size_align(24, 8).unwrap();
    let larger = Layout::from_size_align(48, 8).unwrap();
    // SAFETY: each block is freed with the allocator and the layout that it was made with, or grew to.
    let blocks: Vec<*mut u8> = (0..1000).map(|_| unsafe { EVERY.realloc(EVERY.alloc(layout), layout, 48) }).collect();
    let alive = EVERY.alive();
    assert_eq!((alive.blocks, alive.bytes), (1000, 48_000));
    for block in blocks {
        // SAFETY: as above.
        unsafe { EVERY.dealloc(block, larger) };
    }
    assert_eq!(EVERY.alive().blocks, 0);
}
