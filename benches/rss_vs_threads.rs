//! Resident memory against threads, with criterion's statistics over bytes instead of seconds.
//! In: the cells of this build. Out: bytes of resident memory when idle, by allocator and thread count.
//!
//! Each iteration is a fresh process: a cell that runs a shortened `server`, started as a study starts it. criterion
//! always prints `time:`, but the unit next to the number is right. It also warns that the time is short, because each
//! sample is one process, as intended.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use allocanary_rows::Cell;
use allocanary_rows::Moment;
use allocanary_rows::job::Job;
use allocanary_study::session::{Linked, Roster, Session};
use criterion::measurement::{Measurement, ValueFormatter};
use criterion::{BenchmarkId, Criterion, SamplingMode, Throughput, criterion_group, criterion_main};

const THREADS: [u32; 4] = [1, 4, 16, 64];
const WORKLOAD: &str = "server:requests=400,bursts=1,settle=0ms";

/// Resident bytes, as a cell reports them.
struct ResidentBytes;

impl Measurement for ResidentBytes {
    type Intermediate = ();
    type Value = u64;

    // Another process has the measured bytes, so every bench returns its own figure with `iter_custom`.
    fn start(&self) {}

    fn end(&self, (): ()) -> u64 {
        0
    }

    fn add(&self, one: &u64, other: &u64) -> u64 {
        one + other
    }

    fn zero(&self) -> u64 {
        0
    }

    fn to_f64(&self, bytes: &u64) -> f64 {
        *bytes as f64
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        &BinaryMultiples
    }
}

/// Shows KiB or MiB, with one unit for all values of a group.
struct BinaryMultiples;

impl ValueFormatter for BinaryMultiples {
    fn scale_values(&self, typical: f64, values: &mut [f64]) -> &'static str {
        let (unit, name) = if typical < (1 << 20) as f64 { (1 << 10, "KiB") } else { (1 << 20, "MiB") };
        values.iter_mut().for_each(|value| *value /= f64::from(unit));
        name
    }

    fn scale_throughputs(&self, typical: f64, _: &Throughput, values: &mut [f64]) -> &'static str {
        self.scale_values(typical, values)
    }

    fn scale_for_machines(&self, _: &mut [f64]) -> &'static str {
        "bytes"
    }
}

/// The idle resident memory of one fresh process.
fn resident(session: &Session, allocator: &str, threads: u32, repeat: u32) -> u64 {
    let job = Job::workload(WORKLOAD, threads);
    let cell = Cell { repeat, seed: u64::from(repeat), ..Cell::new(allocator, allocator, job) };
    let mut resident = None;
    let row = |sample: &allocanary_rows::sample::Sample| {
        assert!(sample.error.is_none(), "{}: {:?}", sample.cell.title(), sample.error);
        resident = sample.measured.as_ref().and_then(|answer| answer.reading("resident_bytes", Moment::Idle));
        Ok(())
    };
    session.run(&[cell], row).expect("the row is not written anywhere");
    resident.expect("a cell without an error has its resident memory")
}

fn rss_vs_threads(criterion: &mut Criterion<ResidentBytes>) {
    let folder = Path::new(env!("CARGO_BIN_EXE_cell-system")).parent().expect("an executable lies in a folder");
    let roster = Roster::find(&[folder.to_path_buf()], &Default::default());
    let never = AtomicBool::new(false);
    let deadline = Duration::from_secs(60);
    let executor = Linked::new(&roster);
    let session = Session { executor: &executor, deadline, budget: None, interrupted: &never };
    let mut group = criterion.benchmark_group("rss_when_idle");
    // Each sample is one process. An average of several would hide the spread, from which the interval is computed.
    group.sampling_mode(SamplingMode::Flat);
    let mut repeat = 0;
    for allocator in ["system", "jemalloc", "mimalloc"] {
        for threads in THREADS {
            group.bench_function(BenchmarkId::new(allocator, threads), |bencher| {
                bencher.iter_custom(|processes| {
                    let one = |_| {
                        repeat += 1;
                        resident(&session, allocator, threads, repeat)
                    };
                    (0..processes).map(one).sum()
                });
            });
        }
    }
    group.finish();
}

fn criterion() -> Criterion<ResidentBytes> {
    Criterion::default()
        .with_measurement(ResidentBytes)
        .sample_size(10)
        .warm_up_time(Duration::from_millis(1))
        .measurement_time(Duration::from_millis(100))
        .nresamples(10_000)
}

criterion_group! { name = benches; config = criterion(); targets = rss_vs_threads }
criterion_main!(benches);
