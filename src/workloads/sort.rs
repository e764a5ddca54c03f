//! `sort`: records of 16 bytes are appended, sorted by their key, read in order and freed, four ways.
//!
//! Dgraph's buffer against plain nodes: each record an allocation of its own or in an arena, with a vector of references
//! that is sorted; or all in a sort buffer, in memory or in a mapped file.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use super::block::SMALLEST;
use super::crew::{Gate, share, whole_lives};
use super::laps::Laps;
use crate::arena::Arena;
use crate::rng::Rng;
use crate::room::Room;
use crate::setting::Kind;
use crate::sort_buffer::{Options, SortBuffer};
use crate::workload::{Outcome, Setup, Stage, Workload, parameter};

/// The workload.
pub const WORKLOAD: Workload = Workload {
    name: "sort",
    about: "each thread appends records of 16 bytes, sorts them by their key, reads and frees them",
    operation: "record",
    parameters: &[
        parameter("variant", VARIANT, "boxes", "where records are: boxes, an arena, a sort buffer in memory or mapped"),
        parameter("records", COUNT, "2000000", "records in all, shared among the threads"),
        parameter("folder", Kind::Text, "/var/tmp", "where mapped files are; a tmpfs would be memory"),
        parameter("idle", COUNT, "50", "milliseconds of rest before `idle` is read"),
    ],
    seconds: 0.8,
    grows_with: &["records"],
    rests: None,
    run,
};

const VARIANT: Kind =
    Kind::words(&[Cow::Borrowed("boxes"), Cow::Borrowed("arena"), Cow::Borrowed("memory"), Cow::Borrowed("mapped")]);
const COUNT: Kind = Kind::Number { min: 1, max: 1_000_000_000 };
/// One append in so many is timed: reading the clock costs more than the operation does.
const TIMED_EVERY: u32 = 64;
/// What the buffer keeps in memory before it moves to a file: little, since the file is what is asked about.
const MAP_AFTER: usize = 1 << 20;

/// Ordered by the key; the value is the place in which it came, which a stable sort keeps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Record {
    key: u64,
    value: u64,
}

const RECORD_BYTES: usize = size_of::<Record>();

impl Record {
    fn bytes(self) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        bytes[..8].copy_from_slice(&self.key.to_be_bytes());
        bytes[8..].copy_from_slice(&self.value.to_be_bytes());
        bytes
    }

    fn of(bytes: &[u8]) -> Self {
        let half = |at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        Record { key: half(0), value: half(8) }
    }

    /// What a record adds to the sum of all.
    fn check(self) -> u64 {
        self.key.rotate_left(17) ^ self.value
    }
}

/// What one thread does, and what all its records sum to.
struct Task<'a> {
    records: u64,
    rng: Rng,
    sum: u64,
    laps: Laps<'a>,
    gate: &'a Gate,
    folder: PathBuf,
}

impl Task<'_> {
    /// Makes the records and appends each; stops.
    fn append(&mut self, mut append: impl FnMut(Record)) {
        for value in 0..self.records {
            let record = Record { key: self.rng.next(), value };
            self.sum = self.sum.wrapping_add(record.check());
            self.laps.time(|| append(record));
        }
        self.gate.stop(); // filled
    }

    /// Reads the sorted records, panics where one is out of order, lost or changed; stops and rests.
    fn read(&self, records: impl Iterator<Item = Record>) {
        let (mut last, mut count, mut sum) = (None, 0, 0_u64);
        for record in records {
            assert!(last < Some(record), "record {} of {} is out of order", count + 1, self.records);
            (last, count, sum) = (Some(record), count + 1, sum.wrapping_add(record.check()));
        }
        let whole = count == self.records && sum == self.sum;
        assert!(whole, "wanted {} records of sum {:#x}, found {count} of {sum:#x}", self.records, self.sum);
        self.gate.stop(); // peak
        self.gate.stop(); // idle
    }
}

fn run(setup: &Setup, stage: &mut dyn Stage) -> Result<Outcome, String> {
    let records = setup.number("records")?;
    let idle = setup.millis("idle")?;
    let folder = PathBuf::from(setup.word("folder")?);
    // What a record is, and what it takes while all are sorted: half a vector of references more, or the buffer again.
    // The pages of a mapped file are the kernel's to take back.
    const REFERENCE: usize = size_of::<&Record>();
    let (life, bytes_each, most_each): (fn(&mut Task), usize, usize) = match setup.word("variant")? {
        "arena" => (placed, RECORD_BYTES + REFERENCE, RECORD_BYTES + REFERENCE * 3 / 2),
        "memory" => (|task| buffered(task, None), RECORD_BYTES, 2 * RECORD_BYTES),
        "mapped" => (|task| buffered(task, Some(MAP_AFTER)), RECORD_BYTES, 0),
        _ => (boxed, RECORD_BYTES + REFERENCE, SMALLEST + REFERENCE * 3 / 2),
    };
    Room::check_blocks((records * most_each) as u64, "parameter `records`")?;
    let verified = AtomicU64::new(0);

    let worker = |worker: usize, gate: &Gate| {
        let mine = share(records, worker, setup.threads) as u64;
        let (rng, laps) = (Rng::part(setup.seed, worker as u64), Laps::new(setup.timer, TIMED_EVERY));
        life(&mut Task { records: mine, rng, sum: 0, laps, gate, folder: folder.clone() });
        verified.fetch_add(mine, Ordering::Relaxed);
        gate.stop(); // released
        gate.stop(); // purged
    };

    let active = whole_lives(setup.threads, stage, idle, (records * bytes_each) as u64, worker);
    let verified = verified.load(Ordering::Relaxed);
    Ok(Outcome { operations: records as u64, active, timed_every: TIMED_EVERY, verified })
}

fn boxed(task: &mut Task) {
    let mut records = Vec::new();
    task.append(|record| records.push(Box::new(record)));
    records.sort_by_key(|record| record.key);
    task.read(records.iter().map(|record| **record));
}

fn placed(task: &mut Task) {
    let arena = Arena::new();
    let mut records = Vec::new();
    task.append(|record| records.push(&*arena.alloc(record).unwrap_or_else(|refused| panic!("{refused}"))));
    records.sort_by_key(|record| record.key);
    task.read(records.iter().map(|record| **record));
}

/// Sorts on this thread alone, as the others do: the study counts threads.
fn buffered(task: &mut Task, map_after: Option<usize>) {
    let folder = task.folder.clone();
    let options = Options { record_length: Some(RECORD_BYTES), map_after, folder, threads: 1, ..Options::default() };
    let mut buffer = SortBuffer::new(options);
    task.append(|record| buffer.push(&record.bytes()).unwrap_or_else(|refused| panic!("{refused}")));
    buffer.sort_by_number(|bytes| Record::of(bytes).key).unwrap_or_else(|refused| panic!("{refused}"));
    task.read(buffer.iter().map(Record::of));
}
