//! What sorting takes beside the records. A binary of its own, because its global allocator counts.

use std::alloc::System;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use allocanary::Counting;
use allocanary::counting::{count, total};
use allocanary::sort_buffer::{Options, Result, SortBuffer};
use allocanary_sys::rng::Rng;

#[global_allocator]
static GLOBAL: Counting<System> = Counting::new(System);

/// How records are sorted: by what, and whether all have one length.
type Way = (&'static str, Option<usize>, fn(&mut SortBuffer) -> Result<()>);

const WAYS: [Way; 5] = [
    ("values", Some(16), |buffer| buffer.sort_by(|a, b| a[..8].cmp(&b[..8]))),
    ("places", None, |buffer| buffer.sort_by(|a, b| a[..8].cmp(&b[..8]))),
    ("numbers", Some(16), |buffer| buffer.sort_by_number(|record| u64::from(record[0]))),
    ("a prefix", None, |buffer| buffer.sort_by_prefix(10)),
    ("one number for all", Some(16), |buffer| buffer.sort_by_number(|_| 1)),
];

/// The most that sorting so many mapped records holds at once.
fn peak((_, record_length, sort): Way, threads: usize, records: u64) -> u64 {
    let mut buffer = SortBuffer::new(Options { record_length, map_after: Some(0), threads, ..Options::default() });
    let mut rng = Rng::new(1);
    for value in 0..records {
        // Four keys, so that many tie.
        let record = (u128::from(rng.next() >> 62) << 64 | u128::from(value)).to_be_bytes();
        buffer.push(&record).unwrap_or_else(|refused| panic!("{refused}"));
    }
    let peak = if threads == 1 {
        let (sorted, counts) = count(|| sort(&mut buffer));
        sorted.unwrap_or_else(|refused| panic!("{refused}"));
        counts.peak
    } else {
        watched(|| sort(&mut buffer).unwrap_or_else(|refused| panic!("{refused}")))
    };
    assert!(buffer.is_mapped() && buffer.len() as u64 == records);
    peak
}

/// The most that a call held on all threads. A peak is counted for each thread alone, so that of all is looked for, every
/// millisecond: a run is sorted in tens of them.
fn watched(call: impl FnOnce()) -> u64 {
    let (done, before) = (AtomicBool::new(false), total().live);
    thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut most = before;
            while !done.load(Relaxed) {
                most = most.max(total().live);
                thread::sleep(Duration::from_millis(1));
            }
            most
        });
        call();
        done.store(true, Relaxed);
        watch.join().map_or(u64::MAX, |most| most.abs_diff(before))
    })
}

#[test]
fn a_mapped_sort_takes_8_mib_for_a_thread_and_32_for_all_however_many_records() {
    for way in WAYS {
        // A full run at least: one of 16 MiB is 1,048,576 values.
        let [few, many] = [1_100_000, 3_000_000].map(|records| peak(way, 1, records));
        let [most, grown] = [(8 << 20) + (256 << 10), many.saturating_sub(few)];
        assert!(many <= most, "by {}: {many} bytes of {most}", way.0);
        // Marks, and what is merged by: no word for each record.
        assert!(grown < 128 << 10, "by {}: {few} bytes, then {many}", way.0);
        // More runs than threads. A fifth and a seventh of 32 MiB are not what a list doubles to.
        for threads in [5, 7] {
            let (many, most) = (peak(way, threads, 3_000_000), (32 << 20) + (256 << 10));
            assert!(many <= most, "by {} on {threads} threads: {many} bytes of {most}", way.0);
        }
    }
}
