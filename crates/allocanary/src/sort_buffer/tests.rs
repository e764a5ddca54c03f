//! Tests of the buffer against std's sort of the same records, in memory and in a file, and after every error.

use std::cmp::Ordering;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_oneof};

use super::sort_run::RUN_BYTES;
use super::{Options, SortBuffer, SortBufferError};
use allocanary_testing::fuzz::holds;

/// A buffer with short runs, so that few records make many runs.
pub(super) fn buffer(options: Options) -> SortBuffer {
    let mut buffer = SortBuffer::new(options);
    buffer.run_records = 7;
    buffer
}

pub(super) fn filled(options: Options, records: &[Vec<u8>]) -> SortBuffer {
    let mut buffer = buffer(options);
    records.iter().for_each(|record| buffer.push(record).unwrap());
    buffer
}

pub(super) fn all(buffer: &SortBuffer) -> Vec<Vec<u8>> {
    buffer.iter().map(<[u8]>::to_vec).collect()
}

/// The number for sorting. It has few values, so that many records are equal.
fn number(record: &[u8]) -> u64 {
    u64::from(record.first().copied().unwrap_or(0) % 4)
}

fn by_number(a: &[u8], b: &[u8]) -> Ordering {
    number(a).cmp(&number(b))
}

fn prefix(record: &[u8], bytes: usize) -> &[u8] {
    &record[..record.len().min(bytes)]
}

/// Sorts `records` in every way and compares with std's stable sort.
fn check(options: &Options, records: &[Vec<u8>]) {
    let fill = || filled(options.clone(), records);
    assert_eq!(all(&fill()), records, "as they came");

    let mut wanted = records.to_vec();
    wanted.sort_by(|a, b| by_number(a, b));
    let mut sorted = fill();
    sorted.sort_by(by_number).unwrap();
    assert_eq!(all(&sorted), wanted, "by a comparison");
    let mut sorted = fill();
    sorted.sort_by_number(number).unwrap();
    assert_eq!(all(&sorted), wanted, "by a number");

    for bytes in [0, 1, 3, 8, 12, usize::MAX] {
        let mut wanted = records.to_vec();
        wanted.sort_by(|a, b| prefix(a, bytes).cmp(prefix(b, bytes)));
        let mut sorted = fill();
        sorted.sort_by_prefix(bytes).unwrap();
        assert_eq!(all(&sorted), wanted, "by {bytes} bytes");
        // A sorted buffer accepts more records, and sorts again.
        sorted.push(&records[0]).unwrap();
        sorted.sort_by_prefix(bytes).unwrap();
        wanted.push(records[0].clone());
        wanted.sort_by(|a, b| prefix(a, bytes).cmp(prefix(b, bytes)));
        assert_eq!(all(&sorted), wanted, "by {bytes} bytes, with one more");
    }
}

const THREADS: std::ops::Range<usize> = 1..4;

fn records(most: usize, longest: usize) -> impl Strategy<Value = Vec<Vec<u8>>> {
    vec(vec(0_u8..6, 0..longest), 1..if cfg!(miri) { 20 } else { most })
}

#[test]
fn fuzz_records_of_any_length_sort_as_std_sorts_them() {
    holds(64, 2, (records(60, 14), THREADS), |(records, threads)| {
        check(&Options { threads, ..Options::default() }, &records);
    });
}

/// The lengths that are sorted as values, and those around them.
#[test]
fn fuzz_records_of_one_length_sort_as_std_sorts_them() {
    let lengths = prop_oneof![1_usize..13, Just(8_usize), Just(16), Just(24), Just(32), 15_usize..34];
    let bytes = vec(0_u8..6, if cfg!(miri) { 34..150 } else { 34..900 });
    holds(128, 2, (bytes, lengths, THREADS), |(bytes, length, threads)| {
        let records: Vec<Vec<u8>> = bytes.chunks_exact(length).map(<[u8]>::to_vec).collect();
        check(&Options { record_length: Some(length), threads, ..Options::default() }, &records);
    });
}

#[test]
#[cfg_attr(miri, ignore = "Miri maps no files")]
fn fuzz_records_in_a_file_sort_as_std_sorts_them() {
    let records = vec(vec(any::<u8>(), 0..300), 1..60);
    holds(64, 0, (records, 0_usize..2000, THREADS), |(records, after, threads)| {
        check(&Options { map_after: Some(after), threads, ..Options::default() }, &records);
    });
}

pub(super) fn numbered(count: u32) -> Vec<Vec<u8>> {
    // The first digits fall and repeat: a key with few values, then a unique number for each record.
    (0..count).map(|n| format!("{}-{n}", 999 - n * 7 % 10).into_bytes()).collect()
}

/// 3,000 records of ten keys, in many runs and in one: the original gave the second run's first, and a sort that is not
/// stable keeps a few in order.
#[test]
fn equal_records_stay_as_they_came() {
    let count = if cfg!(miri) { 20 } else { 3000 };
    let ways = [(2, 7), (2, usize::MAX), (1, 7), (8, 7)];
    let ways = &ways[..if cfg!(miri) { 1 } else { ways.len() }];
    let alike = (0..count).map(|n| format!("{}-{n:012}", 999 - n * 7 % 10).into_bytes()).collect();
    for (record_length, records) in [(None, numbered(count)), (Some(16), alike)] {
        let mut wanted = records.clone();
        wanted.sort_by(|a, b| a[..3].cmp(&b[..3]));
        for (threads, run_records) in ways.iter().copied() {
            let fill = || {
                let mut buffer = filled(Options { record_length, threads, ..Options::default() }, &records);
                buffer.run_records = run_records;
                buffer
            };
            let mut buffer = fill();
            buffer.sort_by_prefix(3).unwrap();
            assert_eq!(all(&buffer), wanted, "by a prefix, {record_length:?}, {threads}, {run_records}");
            let mut buffer = fill();
            buffer.sort_by(|a, b| a[..3].cmp(&b[..3])).unwrap();
            assert_eq!(all(&buffer), wanted, "by a comparison, {record_length:?}, {threads}, {run_records}");
            let mut buffer = fill();
            buffer.sort_by(|_, _| Ordering::Equal).unwrap();
            assert_eq!(all(&buffer), records);
        }
    }
}

/// Between runs of small ones, and with others of its length.
#[test]
#[cfg_attr(miri, ignore = "tens of millions of bytes")]
fn a_record_larger_than_a_run_is_sorted_as_any_other() {
    type Way = (&'static str, fn(&mut SortBuffer) -> super::Result<()>);
    let large = |first, last| [&[first], &vec![7; RUN_BYTES][..], &[last]].concat();
    let larges = vec![large(3, 0), large(1, 1), large(3, 2), large(2, 3)];
    let mut mixed = vec![vec![3, 4], vec![1, 5]];
    mixed.extend(larges.iter().cloned());
    mixed.extend([vec![1, 6], vec![], vec![3, 7]]);
    let ways: [Way; 3] = [
        ("a comparison", |buffer| buffer.sort_by(by_number)),
        ("a number", |buffer| buffer.sort_by_number(number)),
        ("a prefix", |buffer| buffer.sort_by_prefix(1)),
    ];
    for (record_length, records) in [(None, mixed), (Some(RUN_BYTES + 2), larges)] {
        let mut wanted = records.clone();
        wanted.sort_by(|a, b| by_number(a, b));
        for (name, sort) in ways {
            let mut buffer = filled(Options { record_length, threads: 2, ..Options::default() }, &records);
            sort(&mut buffer).unwrap();
            // Not `assert_eq`, which would print them.
            assert!(all(&buffer) == wanted, "by {name}, {record_length:?}");
        }
    }
}

#[test]
fn empty_records_are_records() {
    for record_length in [None, Some(0)] {
        let mut buffer = filled(Options { record_length, ..Options::default() }, &vec![Vec::new(); 20]);
        buffer.sort_by_number(number).unwrap();
        assert_eq!((buffer.len(), buffer.iter().len(), buffer.iter().count(), buffer.bytes()), (20, 20, 20, 20));
    }
    let mut buffer = filled(Options::default(), &[b"b".to_vec(), vec![], b"a".to_vec(), vec![]]);
    buffer.sort_by_prefix(8).unwrap();
    assert_eq!(all(&buffer), [&b""[..], b"", b"a", b"b"]);
    buffer.clear();
    assert!(buffer.is_empty() && buffer.iter().next().is_none());
}

#[test]
fn what_is_written_is_one_record_until_it_ends() {
    let mut buffer = buffer(Options { limit: 20, ..Options::default() });
    write!(buffer, "{}{}", 12, 34).unwrap();
    buffer.push(b"before").unwrap();
    buffer.end_record().unwrap();
    buffer.end_record().unwrap();
    assert_eq!(all(&buffer), [&b"before"[..], b"1234", b""]);

    buffer.write_all(b"a record of 16 b").unwrap();
    let full = buffer.end_record().unwrap_err();
    assert!(matches!(full, SortBufferError::Full { wanted: 17, held: 13, limit: 20 }), "{full}");
    let refused = buffer.write(b"more").unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::FileTooLarge);
    buffer.clear();
    buffer.end_record().unwrap();
    assert_eq!(all(&buffer), [b"a record of 16 b"]);
    buffer.write_all(b"dropped").unwrap();
    buffer.drop_record();
    buffer.end_record().unwrap();
    assert_eq!(buffer.iter().last(), Some(&b""[..]));
}

#[test]
fn limits_are_errors_that_name_both_sides() {
    let mut buffer = filled(Options { limit: 10, ..Options::default() }, &[b"kept".to_vec()]);
    for (record, said) in [
        (&[1; 12][..], "a record takes 13 bytes and the buffer may hold 10"),
        (&[1; 6], "may hold 10 bytes holds 5 and was given 7 more"),
    ] {
        let refused = buffer.push(record).unwrap_err().to_string();
        assert!(refused.contains(said), "{refused}");
        assert_eq!(all(&buffer), [b"kept"]);
    }
    buffer.push(b"last").unwrap();
    let mut fixed = filled(Options { record_length: Some(4), ..Options::default() }, &[b"kept".to_vec()]);
    let refused = fixed.push(b"short").unwrap_err().to_string();
    assert!(refused.contains("wanted a record of 4 bytes, found 5"), "{refused}");
    assert_eq!(all(&fixed), [b"kept"]);
}

#[test]
fn what_is_written_past_the_one_length_is_refused_at_once() {
    let mut buffer = buffer(Options { record_length: Some(4), ..Options::default() });
    let refused = buffer.write_all(&[1; 1_000_000]).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
    assert!(refused.to_string().contains("wanted a record of 4 bytes, found 1000000"), "{refused}");
    buffer.write_all(b"abc").unwrap();
    let refused = buffer.write_all(b"de").unwrap_err().to_string();
    assert!(refused.contains("wanted a record of 4 bytes, found 5"), "{refused}");
    let short = buffer.end_record().unwrap_err().to_string();
    assert!(short.contains("wanted a record of 4 bytes, found 3"), "{short}");
    // A refused write leaves the open record unchanged, and further writes succeed.
    buffer.write_all(b"d").unwrap();
    buffer.end_record().unwrap();
    assert_eq!(all(&buffer), [b"abcd"]);

    let mut empty = self::buffer(Options { record_length: Some(0), ..Options::default() });
    assert!(empty.write_all(b"a").is_err());
    empty.end_record().unwrap();
    assert_eq!(all(&empty), [b""]);
}

#[test]
fn a_comparison_that_panics_loses_no_record() {
    let count = if cfg!(miri) { 20 } else { 100 };
    let records = numbered(count);
    let mut wanted = records.clone();
    wanted.sort();
    // A sort that panics at its comparison `last`: the number of comparisons, and whether it finished.
    let sort = |last: usize| {
        let mut buffer = filled(Options { threads: 1, ..Options::default() }, &records);
        let calls = AtomicUsize::new(0);
        let compare = |a: &[u8], b: &[u8]| {
            assert!(calls.fetch_add(1, Relaxed) < last, "on purpose");
            a.cmp(b)
        };
        let ended = catch_unwind(AssertUnwindSafe(|| buffer.sort_by(compare))).is_ok();
        let mut found = all(&buffer);
        found.sort();
        assert_eq!(found, wanted);
        (calls.into_inner(), ended)
    };
    let (calls, ended) = sort(usize::MAX);
    assert!(ended && calls > 3 * count as usize, "{calls}");
    for last in [0, calls / 8, calls / 2, calls - 1] {
        assert_eq!(sort(last), (last + 1, false));
    }
}
