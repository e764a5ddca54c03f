//! The cost of one allocation and its free. In: the three allocators' `GlobalAlloc`, called directly. Out: the time of
//! a pair of calls with a write to the memory between them, by size class and thread count.
//!
//! All three are linked into this binary. For time this is fine: each call goes to one allocator, and the others do
//! nothing. For memory it would be wrong: jemalloc and mimalloc initialise themselves at load, so each figure would
//! contain the others. Cells measure memory, see `rss_vs_threads`.

use std::alloc::{GlobalAlloc, Layout, System, handle_alloc_error};
use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use mimalloc::MiMalloc;
use tikv_jemallocator::Jemalloc;

const SIZES: [(usize, &str); 5] =
    [(16, "16 B"), (256, "256 B"), (4 << 10, "4 KiB"), (64 << 10, "64 KiB"), (1 << 20, "1 MiB")];
const THREADS: [usize; 3] = [1, 2, 8];
const PAGE: usize = 4096;

/// Allocates, writes one byte to each page, and frees, `times` times.
fn pairs(allocator: &impl GlobalAlloc, layout: Layout, times: u64) {
    for _ in 0..times {
        // SAFETY: the layout's size is not zero.
        let block = unsafe { allocator.alloc(layout) };
        if block.is_null() {
            handle_alloc_error(layout);
        }
        for offset in (0..layout.size()).step_by(PAGE) {
            // SAFETY: the offset is within the block, which is ours alone.
            unsafe { block.add(offset).write_volatile(1) };
        }
        // SAFETY: the block is from the same allocator with the same layout, and nobody uses it any more.
        unsafe { allocator.dealloc(black_box(block), layout) };
    }
}

/// The time for `threads` threads to do `times` pairs each, at the same time, without starting and ending the threads.
fn timed(allocator: &(impl GlobalAlloc + Sync), layout: Layout, threads: usize, times: u64) -> Duration {
    let gate = Barrier::new(threads + 1);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                pairs(allocator, layout, 1); // makes the thread's heap and cache before the clock starts
                gate.wait();
                pairs(allocator, layout, times);
                gate.wait();
            });
        }
        gate.wait();
        let started = Instant::now();
        gate.wait();
        started.elapsed()
    })
}

fn alloc_free(criterion: &mut Criterion) {
    for (size, name) in SIZES {
        let mut group = criterion.benchmark_group(format!("alloc_free/{name}"));
        let layout = Layout::from_size_align(size, 16).expect("sizes and alignment are powers of two");
        for threads in THREADS {
            let id = |allocator: &str| BenchmarkId::new(allocator, format!("{threads} threads"));
            group.bench_function(id("system"), |b| b.iter_custom(|times| timed(&System, layout, threads, times)));
            group.bench_function(id("jemalloc"), |b| b.iter_custom(|times| timed(&Jemalloc, layout, threads, times)));
            group.bench_function(id("mimalloc"), |b| b.iter_custom(|times| timed(&MiMalloc, layout, threads, times)));
        }
        group.finish();
    }
}

fn criterion() -> Criterion {
    Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(800))
        .nresamples(10_000)
}

criterion_group! { name = benches; config = criterion(); targets = alloc_free }
criterion_main!(benches);
