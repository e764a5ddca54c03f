//! The cost of one scrape of the metrics page: reading the allocator and /proc, and writing the text. The target is 200 microseconds
//! without PSS, for any number of arenas. jemalloc adds up the statistics of each arena, so more arenas cost more. The lines "waiting" show
//! how much. The pause before each scrape lets the thread that adds them up finish, as between the scrapes of a service.
//!
//! `cargo bench --bench scrape --features prometheus`

use std::sync::Barrier;
use std::time::{Duration, Instant};

use allocanary::metrics::AllocatorCollector;
use criterion::{Criterion, criterion_group, criterion_main};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

allocanary::install!(jemalloc, narenas = 256);

/// The pause before each scrape. It is longer than jemalloc takes for 256 arenas.
const PAUSE: Duration = Duration::from_millis(5);

/// A scrape while `threads` threads hold memory, so that there are as many arenas to read.
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
            bencher.iter_custom(|times| {
                let scrape = |_| {
                    std::thread::sleep(PAUSE);
                    page.clear();
                    let start = Instant::now();
                    encode(&mut page, &registry).expect("a text can be written");
                    start.elapsed()
                };
                (0..times).map(scrape).sum()
            });
        });
        gate.wait();
    });
}

fn scrapes(bencher: &mut Criterion) {
    // Few arenas come first, because arenas stay once they are made, and all later scrapes must add them up.
    for threads in [1, 4, 16, 64, 256] {
        scrape(bencher, &format!("scrape, threads and arenas: {threads}"), threads, AllocatorCollector::new());
        let waiting = AllocatorCollector::new().with_refresh(Duration::ZERO);
        scrape(bencher, &format!("scrape waiting for the counters, threads and arenas: {threads}"), threads, waiting);
    }
    scrape(bencher, "scrape with PSS, threads and arenas: 256", 256, AllocatorCollector::new().with_pss(true));
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20);
    targets = scrapes
}
criterion_main!(benches);
