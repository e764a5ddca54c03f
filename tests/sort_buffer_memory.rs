//! What sorting takes beside the records. A binary of its own, because its global allocator counts.

use std::alloc::System;

use allocanary::Counting;
use allocanary::counting::count;
use allocanary::rng::Rng;
use allocanary::sort_buffer::{Options, Result, SortBuffer};

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
fn peak((_, record_length, sort): Way, records: u64) -> u64 {
    let mut buffer = SortBuffer::new(Options { record_length, map_after: Some(0), threads: 1, ..Options::default() });
    let mut rng = Rng::new(1);
    for value in 0..records {
        // Four keys, so that many tie.
        let record = (u128::from(rng.next() >> 62) << 64 | u128::from(value)).to_be_bytes();
        buffer.push(&record).unwrap_or_else(|refused| panic!("{refused}"));
    }
    let (sorted, counts) = count(|| sort(&mut buffer));
    sorted.unwrap_or_else(|refused| panic!("{refused}"));
    assert!(buffer.is_mapped() && buffer.len() as u64 == records);
    counts.peak
}

#[test]
fn a_mapped_sort_takes_8_mib_for_a_thread_however_many_records() {
    // Both more than the largest run holds.
    for way in WAYS {
        let [few, many] = [1_200_000, 3_600_000].map(|records| peak(way, records));
        let [most, grown] = [(8 << 20) + (256 << 10), many.saturating_sub(few)];
        assert!(many <= most, "by {}: {many} bytes of {most}", way.0);
        // Marks, and what is merged by: no word for each record.
        assert!(grown < 128 << 10, "by {}: {few} bytes, then {many}", way.0);
    }
}
