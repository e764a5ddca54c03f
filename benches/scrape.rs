//! What one scrape of the metrics page costs: reading the allocator and /proc, and writing the text.
//! The promise is 200 microseconds without PSS, with as many arenas as jemalloc makes on 4 cores: 16. It adds up each
//! arena's statistics by itself, so that more of them cost more, unless they may stand for a while (`with_refresh`).
//!
//! `cargo bench --bench scrape --features prometheus`

use std::sync::Barrier;
use std::time::Duration;

use allocanary::metrics::AllocatorCollector;
use criterion::{Criterion, criterion_group, criterion_main};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

allocanary::install!(jemalloc, narenas = 256);

/// A scrape while `threads` threads hold memory, so that as many arenas are there to be read.
fn scrape(bencher: &mut Criterion, name: &str, threads: usize, collector: AllocatorCollector) {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(collector));
    let gate = Barrier::new(threads + 1);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let held = vec![1_u8; 1 << 20];
                gate.wait();
                gate.wait();
                drop(held);
            });
        }
        gate.wait();
        let mut page = String::with_capacity(16 * 1024);
        bencher.bench_function(name, |bencher| {
            bencher.iter(|| {
                page.clear();
                encode(&mut page, &registry).expect("a text can be written");
                page.len()
            });
        });
        gate.wait();
    });
}

fn scrapes(bencher: &mut Criterion) {
    for threads in [1, 4, 16, 64, 256] {
        scrape(bencher, &format!("scrape, threads and arenas: {threads}"), threads, AllocatorCollector::new());
    }
    for threads in [64, 256] {
        let seldom = AllocatorCollector::new().with_refresh(Duration::from_secs(60));
        scrape(bencher, &format!("scrape with counters that stand, threads and arenas: {threads}"), threads, seldom);
    }
    scrape(bencher, "scrape with PSS, threads and arenas: 16", 16, AllocatorCollector::new().with_pss(true));
}

criterion_group!(benches, scrapes);
criterion_main!(benches);
