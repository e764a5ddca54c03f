//! `sort`: records of 16 bytes are appended, sorted by their key, read in order and freed, in four ways.
//!
//! It compares Dgraph's buffer with plain nodes. In two ways each record is a separate allocation or in an arena, and a
//! vector of references is sorted. In the other two, all records are in a sort buffer, in memory or in a mapped file.

use std::borrow::Cow;
use std::convert::Infallible;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::crew::{StartGate, share, whole_lives};
use super::laps::Laps;
use crate::room;
use crate::workload::{Outcome, Setup, WAIT, Workload, WorkloadStage, parameter};
use allocanary::arena::Arena;
use allocanary::sort_buffer::{Options, SortBuffer};
use allocanary_facts::setting::SettingKind;
use allocanary_sys::rng::Rng;
use allocanary_sys::sys;

pub const WORKLOAD: Workload = Workload {
    name: "sort",
    about: "each thread appends records of 16 bytes, sorts them by their key, reads and frees them",
    operation: "record",
    parameters: &[
        parameter("variant", VARIANT, "boxes", "where records are: boxes, an arena, a sort buffer in memory or mapped"),
        parameter("records", COUNT, "2000000", "records in all, shared among the threads"),
        parameter("folder", SettingKind::Text, "/var/tmp", "where mapped files are; a tmpfs would be memory"),
        parameter("settle", WAIT, "50ms", "rest before `idle` is read"),
    ],
    seconds: 0.8,
    grows_with: &["records"],
    rests: None,
    run,
};

const VARIANT: SettingKind = SettingKind::words(&[
    Cow::Borrowed("boxes"),
    Cow::Borrowed("arena"),
    Cow::Borrowed("memory"),
    Cow::Borrowed("mapped"),
]);
const COUNT: SettingKind = SettingKind::Number { min: 1, max: 1_000_000_000 };
/// One in this many appends is timed, because reading the clock costs more than the operation.
const TIMED_EVERY: u32 = 64;

/// A record, ordered by its key and then by its value. The value is the record's position in the input, so a stable
/// sort keeps this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Record {
    key: u64,
    value: u64,
}

const RECORD_BYTES: usize = size_of::<Record>();
const REFERENCE: usize = size_of::<&Record>();

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

    /// The part of a record in the checksum.
    fn check(self) -> u64 {
        self.key.rotate_left(17) ^ self.value
    }
}

/// The work of one thread, and the checksum of its records.
struct Task<'a> {
    records: u64,
    rng: Rng,
    sum: u64,
    laps: Laps<'a>,
    gate: &'a StartGate,
    folder: PathBuf,
}

impl Task<'_> {
    /// Makes the records and appends each, until one is refused. In any case it stops at the gate.
    fn append<E: Display>(&mut self, mut append: impl FnMut(Record) -> Result<(), E>) -> Result<(), String> {
        let mut appended = Ok(());
        for value in 0..self.records {
            let record = Record { key: self.rng.next(), value };
            self.sum = self.sum.wrapping_add(record.check());
            if let Err(refused) = self.laps.time(|| append(record)) {
                appended = Err(format!("record {} of {}: {refused}", value + 1, self.records));
                break;
            }
        }
        self.gate.stop(); // filled
        appended
    }

    /// Reads the sorted records, stops, and waits through the idle time. Panics if a record is out of order, lost or
    /// changed.
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

/// The maximum memory of all threads, in bytes. The threads reach it while they sort.
struct Most {
    blocks: usize,
    /// Bytes in files on a memory file system. The kernel can reclaim the pages of other files.
    files: usize,
}

impl Most {
    fn of(setup: &Setup, records: usize, folder: &Path) -> Result<Self, String> {
        // To sort references needs half of their size in addition. To sort a buffer needs a second buffer and, in each
        // thread, the numbers of a run: 16 bytes for each record.
        const RUN: usize = 8 << 20;
        let each_thread = |most: usize| setup.threads * most.min(records.div_ceil(setup.threads) * RECORD_BYTES);
        // A file grows by its own length, so up to half of it may be unused.
        let mapped = if sys::is_memory(folder) { 3 * RECORD_BYTES } else { 0 };
        let (blocks, files) = match setup.word("variant")? {
            "arena" => (records * (RECORD_BYTES + REFERENCE * 3 / 2), 0),
            "memory" => (records * 2 * RECORD_BYTES + each_thread(RUN), 0),
            "mapped" => (each_thread(RUN), records * mapped),
            _ => (records * (setup.small_block + REFERENCE * 3 / 2), 0),
        };
        Ok(Most { blocks, files })
    }
}

/// Appends the records, sorts and reads them, with one stop after appending and two after reading. If appending fails,
/// it returns after the first stop.
type Life = fn(&mut Task) -> Result<(), String>;

fn run(setup: &Setup, stage: &mut dyn WorkloadStage) -> Result<Outcome, String> {
    let records = setup.number("records")?;
    let idle = setup.time("settle")?;
    let folder = PathBuf::from(setup.word("folder")?);
    let (life, bytes_each): (Life, usize) = match setup.word("variant")? {
        "arena" => (placed, RECORD_BYTES + REFERENCE),
        "memory" => (|task| buffered(task, None), RECORD_BYTES),
        "mapped" => (|task| buffered(task, MAPPED), RECORD_BYTES),
        _ => (boxed, RECORD_BYTES + REFERENCE),
    };
    let Most { blocks, files } = Most::of(setup, records, &folder)?;
    room::check_blocks_and_files(blocks as u64, files as u64, "parameter `records`")?;
    if setup.word("variant")? == "mapped" {
        // This makes the smallest file before threads wait for each other, to report a folder that does not allow
        // files.
        let tried = buffer(&folder, MAPPED).push(&[0; RECORD_BYTES]);
        tried.map_err(|refused| format!("parameter `folder`: {refused}"))?;
    }
    let (verified, problem) = (AtomicU64::new(0), Mutex::new(None));

    let worker = |worker: usize, gate: &StartGate| {
        let mine = share(records, worker, setup.threads) as u64;
        let (rng, laps) = (Rng::part(setup.seed, worker as u64), Laps::new(setup.timer, TIMED_EVERY));
        let task = &mut Task { records: mine, rng, sum: 0, laps, gate, folder: folder.clone() };
        if let Err(refused) = life(task) {
            problem.lock().unwrap().get_or_insert(refused);
            gate.stop(); // peak
            gate.stop(); // idle
        }
        verified.fetch_add(mine, Ordering::Relaxed);
        gate.stop(); // released
        gate.stop(); // purged
    };

    let active = whole_lives(setup.threads, stage, idle, (records * bytes_each) as u64, worker);
    if let Some(refused) = problem.into_inner().unwrap() {
        return Err(refused);
    }
    let verified = verified.load(Ordering::Relaxed);
    Ok(Outcome { operations: records as u64, active, timed_every: TIMED_EVERY, verified })
}

fn boxed(task: &mut Task) -> Result<(), String> {
    let mut records = Vec::new();
    task.append(|record| {
        records.push(Box::new(record));
        Ok::<(), Infallible>(())
    })?;
    records.sort_by_key(|record| record.key);
    task.read(records.iter().map(|record| **record));
    Ok(())
}

fn placed(task: &mut Task) -> Result<(), String> {
    let arena = Arena::new();
    let mut records = Vec::new();
    task.append(|record| arena.alloc(record).map(|placed| records.push(&*placed)))?;
    records.sort_by_key(|record| record.key);
    task.read(records.iter().map(|record| **record));
    Ok(())
}

/// The file is used from the first record on, even for few records, because it is the subject of the measurement.
const MAPPED: Option<usize> = Some(0);

fn buffer(folder: &Path, map_after: Option<usize>) -> SortBuffer {
    let folder = folder.to_path_buf();
    // Sorts on one thread, like the other variants, because the study sets the number of threads.
    SortBuffer::new(Options { record_length: Some(RECORD_BYTES), map_after, folder, threads: 1, ..Options::default() })
}

fn buffered(task: &mut Task, map_after: Option<usize>) -> Result<(), String> {
    let mut buffer = buffer(&task.folder, map_after);
    task.append(|record| buffer.push(&record.bytes()))?;
    let is_mapped = map_after.is_some() && task.records > 0;
    assert!(buffer.is_mapped() == is_mapped, "the records are in a file: wanted {is_mapped}");
    buffer.sort_by_number(|bytes| Record::of(bytes).key).map_err(|refused| refused.to_string())?;
    task.read(buffer.iter().map(Record::of));
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::workloads::laps::Nobody;

    #[test]
    fn every_thread_that_sorts_a_buffer_has_its_numbers() {
        let most = |variant: &str, threads, small_block, records| {
            let parameters = BTreeMap::from([("variant".to_string(), variant.to_string())]);
            let setup =
                Setup { threads, seed: 1, parameters, timer: &Nobody, small_block, allocator: &allocanary::System };
            let Most { blocks, files } = Most::of(&setup, records, Path::new("/proc")).unwrap();
            (blocks, files)
        };
        const MIB: usize = 1 << 20;
        for (variant, threads, small_block, records, wanted) in [
            ("memory", 1, 16, MIB, (32 + 8) * MIB),
            ("memory", 4, 16, MIB, (32 + 16) * MIB),
            ("memory", 4, 16, 16 * MIB, (512 + 32) * MIB),
            ("mapped", 4, 16, 16 * MIB, 4 * 8 * MIB),
            ("mapped", 1, 16, 64, 1024),
            ("arena", 4, 32, MIB, 28 * MIB),
            ("boxes", 4, 32, MIB, 44 * MIB),
            ("boxes", 4, 16, MIB, 28 * MIB),
        ] {
            assert_eq!(most(variant, threads, small_block, records), (wanted, 0), "{variant}, {threads} threads");
        }
    }
}
