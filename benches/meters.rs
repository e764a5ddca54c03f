//! The cost of reading the meters. In: each meter of the list, under the system's malloc, and the counters of the other
//! allocators. Out: the time of one reading into slots that exist already.
//!
//! All three allocators are linked here, which is fine for time and never for memory. The counters of jemalloc and
//! mimalloc are those of an allocator that has hardly been used. With more arenas they cost more.

use std::time::Duration;

use allocanary::Allocator;
use allocanary::{Jemalloc, Mimalloc, System};
use allocanary_cell::meters;
use criterion::{Criterion, criterion_group, criterion_main};

fn each_meter(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("meters");
    let mut slots = [None; meters::COLUMNS];
    for meter in meters::ALL {
        let slots = &mut slots[..meter.columns.len()];
        group.bench_function(meter.name, |bencher| bencher.iter(|| (meter.read)(&System, slots)));
    }
    group.bench_function("all", |bencher| {
        bencher.iter(|| {
            let mut slots = &mut slots[..];
            for meter in meters::ALL {
                let (own, rest) = slots.split_at_mut(meter.columns.len());
                (meter.read)(&System, own);
                slots = rest;
            }
        });
    });
    group.finish();
}

fn counters(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("counters");
    let allocators: [&dyn Allocator; 3] = [&System, &Jemalloc, &Mimalloc];
    for allocator in allocators {
        group.bench_function(allocator.name(), |bencher| bencher.iter(|| allocator.counters()));
    }
    group.finish();
}

fn criterion() -> Criterion {
    Criterion::default().warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(2))
}

criterion_group! { name = benches; config = criterion(); targets = each_meter, counters }
criterion_main!(benches);
