//! The replay's own memory, which must not count as the allocator's. In: a prepared file, or a number of items. Out:
//! mapped memory: the file, or a shared mapping that no other process has. RssAnon includes neither of them.

use std::fmt::Display;
use std::fs::File;
use std::marker::PhantomData;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr::{NonNull, null_mut};

use allocanary_sys::private;

use crate::error::{Error, Result};
use crate::layout::{HEADER, MAGIC, Mark, Op, ReplayMoment};
use crate::origin::Origin;

/// A mapped prepared trace.
pub struct PreparedTrace {
    start: NonNull<u8>,
    length: usize,
    /// The offset of the tables.
    tables: usize,
    pub(crate) marks: usize,
    pub(crate) lanes: usize,
    pub(crate) epochs: u32,
    pub(crate) slots: usize,
    /// The number of operations.
    pub operations: u64,
    /// The most live bytes.
    pub peak_live: u64,
    /// Length of the trace in nanoseconds.
    pub nanos: u64,
    /// The program's highest RssAnon, in bytes.
    pub most_resident: u64,
    /// RssAnon of the program at its last reading, in bytes.
    pub last_resident: u64,
    /// One block in this many was recorded.
    pub rate: u64,
    /// The number of threads of the program.
    pub threads: u64,
}

// SAFETY: the mapping is read only.
unsafe impl Send for PreparedTrace {}
// SAFETY: the mapping is read only.
unsafe impl Sync for PreparedTrace {}

/// A lane: the operations of one thread in the file.
#[derive(Clone, Copy)]
pub(crate) struct LaneRecord {
    pub first: u32,
    pub last: u32,
    /// The place of its runs among the words, and their number.
    pub runs: usize,
    pub count: usize,
}

/// The number of words of a mark.
const MARK: usize = 4;
/// The number of words in the header before those of the origin.
const FIGURES: usize = 12;

fn failed(path: &Path, error: &dyn Display) -> Error {
    Error::file(path, "opening the prepared trace", error)
}

impl PreparedTrace {
    /// Maps a prepared trace of this user. It does not check from which trace the form was made:
    /// [`prepare`](crate::prepare::prepare) finds the form of a given trace. The error says why the file is not a
    /// prepared trace.
    pub fn open(path: &Path) -> Result<PreparedTrace> {
        let file = private::open_own(path).map_err(|error| failed(path, &error))?;
        PreparedTrace::map(&file, path)
    }

    /// Like [`open`](Self::open), but fails if the form was not made from `origin`.
    pub(crate) fn open_of(path: &Path, origin: &Origin) -> Result<PreparedTrace> {
        let prepared = PreparedTrace::open(path)?;
        if (0..origin.words().len()).any(|at| prepared.word_at(8 + (FIGURES + at) * 8) != origin.words()[at]) {
            return Err(failed(path, &"it is of another trace, of other marks, or of what the trace was before"));
        }
        Ok(prepared)
    }

    /// Maps an open prepared trace, which no other user can write to.
    pub(crate) fn map(file: &File, path: &Path) -> Result<PreparedTrace> {
        let failed = |error: &dyn Display| failed(path, error);
        let length = file.metadata().map_err(|error| failed(&error))?.len() as usize;
        if length < HEADER as usize {
            return Err(failed(&"it is too short"));
        }
        // SAFETY: a new mapping of a file that is only read. The file belongs to this user, and nobody else can write
        // to it.
        let start = unsafe { libc::mmap(null_mut(), length, libc::PROT_READ, libc::MAP_PRIVATE, file.as_raw_fd(), 0) };
        if start == libc::MAP_FAILED {
            return Err(failed(&std::io::Error::last_os_error()));
        }
        let start = NonNull::new(start.cast()).expect("a mapping is never at 0");
        let mut prepared = PreparedTrace {
            start,
            length,
            tables: 0,
            marks: 0,
            lanes: 0,
            epochs: 0,
            slots: 0,
            operations: 0,
            peak_live: 0,
            nanos: 0,
            most_resident: 0,
            last_resident: 0,
            rate: 1,
            threads: 0,
        };
        if prepared.bytes()[..8] != MAGIC {
            return Err(failed(&"it is of another version"));
        }
        let word = |at: usize| prepared.word_at(8 + at * 8);
        let [tables, marks, lanes, epochs, slots] = [word(0), word(1), word(2), word(3), word(4)].map(|w| w as usize);
        let [operations, peak_live, nanos, most_resident] = [word(5), word(6), word(7), word(8)];
        let [last_resident, rate, threads] = [word(9), word(10), word(FIGURES - 1)];
        prepared.tables = tables;
        (prepared.marks, prepared.lanes, prepared.epochs, prepared.slots) = (marks, lanes, epochs as u32, slots);
        (prepared.operations, prepared.peak_live, prepared.nanos) = (operations, peak_live, nanos);
        (prepared.most_resident, prepared.last_resident) = (most_resident, last_resident);
        (prepared.rate, prepared.threads) = (rate, threads);
        if !prepared.is_sound() {
            return Err(failed(&"its tables are damaged"));
        }
        Ok(prepared)
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping has that length and lives as long as this value.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }

    fn word_at(&self, offset: usize) -> u64 {
        let bytes = self.bytes().get(offset..offset.saturating_add(8));
        bytes.map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
    }

    /// A word of the tables.
    fn word(&self, at: usize) -> u64 {
        self.word_at(self.tables.saturating_add(at.saturating_mul(8)))
    }

    /// Whether all tables are within the file.
    fn is_sound(&self) -> bool {
        let words = self.length.saturating_sub(self.tables) / 8;
        if self.tables < HEADER as usize || self.tables > self.length || !self.tables.is_multiple_of(16) {
            return false;
        }
        if self.marks > words
            || self.lanes > words
            || self.epochs as usize > words
            || self.slots as u64 > self.operations
        {
            return false;
        }
        let mut end = self.marks * MARK;
        for record in self.lane_records() {
            end = record.runs.saturating_add(record.count.saturating_mul(2));
            let within = |run: usize| {
                let (offset, count) = self.run(&record, run);
                offset % 16 == 0 && offset >= HEADER && offset.saturating_add(count * 16) <= self.tables as u64
            };
            if end > words || !(0..record.count).all(within) {
                return false;
            }
        }
        end.saturating_add(self.epochs as usize) <= words
    }

    /// The number of blocks that are made, freed and resized before the replay stops at this moment; `None` if it does
    /// not stop there.
    pub fn events_before(&self, moment: ReplayMoment) -> Option<u64> {
        let mut marks = (0..self.marks).map(|at| self.mark(at));
        marks.find(|mark| ReplayMoment::of(mark.what) == Some(moment)).map(|mark| mark.events)
    }

    pub(crate) fn mark(&self, at: usize) -> Mark {
        let word = |word: usize| self.word(at * MARK + word);
        Mark { epoch: word(0) as u32, what: word(1) as u32, live: word(2), events: word(3) }
    }

    /// The lanes in the order in which they begin.
    pub(crate) fn lane_records(&self) -> impl Iterator<Item = LaneRecord> {
        let mut at = self.marks * MARK;
        (0..self.lanes).map(move |_| {
            let count = self.word(at + 2) as usize;
            let record =
                LaneRecord { first: self.word(at) as u32, last: self.word(at + 1) as u32, runs: at + 3, count };
            at = at.saturating_add(3).saturating_add(count.saturating_mul(2));
            record
        })
    }

    /// A run of a lane: its offset, and its number of operations.
    pub(crate) fn run(&self, record: &LaneRecord, run: usize) -> (u64, u64) {
        let at = record.runs.saturating_add(run.saturating_mul(2));
        (self.word(at), self.word(at.saturating_add(1)) & u64::from(u32::MAX))
    }

    pub(crate) fn ops(&self, run: (u64, u64)) -> &[Op] {
        // SAFETY: `is_sound` has checked the range and its alignment; every 16 bytes are an operation.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(run.0 as usize).cast(), run.1 as usize) }
    }

    /// Gives the pages of a run back to the kernel. If they are needed again, the kernel reads them from the file.
    pub(crate) fn drop_run(&self, run: (u64, u64)) {
        let (from, to) = (run.0 as usize & !4095, (run.0 + run.1 * 16) as usize & !4095);
        if to > from {
            // SAFETY: whole pages of our own mapping, which is read only.
            unsafe { libc::madvise(self.start.as_ptr().add(from).cast(), to - from, libc::MADV_DONTNEED) };
        }
    }

    /// The number of threads that have operations in an epoch.
    pub(crate) fn remaining(&self, epoch: usize) -> u32 {
        self.word_at(self.length - (self.epochs as usize - epoch) * 8) as u32
    }
}

impl Drop for PreparedTrace {
    fn drop(&mut self) {
        // SAFETY: our own mapping, which nobody uses any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

/// Items in shared anonymous memory, all zeros at first.
pub(crate) struct Anonymous<T> {
    start: NonNull<T>,
    count: usize,
    items: PhantomData<T>,
}

/// A type for which all zero bytes are a valid value.
///
/// # Safety
///
/// All zero bytes must be a valid value, and the type must not need a drop.
pub(crate) unsafe trait Zeroed {}

// SAFETY: an integer.
unsafe impl Zeroed for std::sync::atomic::AtomicU32 {}

// SAFETY: an integer.
unsafe impl Zeroed for std::sync::atomic::AtomicU64 {}

impl<T: Zeroed> Anonymous<T> {
    pub(crate) fn new(count: usize) -> Option<Self> {
        let length = count.max(1).checked_mul(size_of::<T>())?;
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping of no file.
        let start = unsafe { libc::mmap(null_mut(), length, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        let start = NonNull::new(start.cast()).filter(|_| start != libc::MAP_FAILED)?;
        Some(Anonymous { start, count, items: PhantomData })
    }

    pub(crate) fn items(&self) -> &[T] {
        // SAFETY: the mapping has that many items, all valid.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.count) }
    }
}

impl<T> Anonymous<T> {
    /// Removes the pages from the resident memory of this process. Their content stays.
    pub(crate) fn drop_pages(&self) {
        let length = self.count.max(1) * size_of::<T>();
        // SAFETY: our own shared mapping. Its pages stay in memory, and only this process's mapping of them ends.
        unsafe { libc::madvise(self.start.as_ptr().cast(), length, libc::MADV_DONTNEED) };
    }
}

impl<T> Drop for Anonymous<T> {
    fn drop(&mut self) {
        let length = self.count.max(1) * size_of::<T>();
        // SAFETY: our own mapping, which nobody uses any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), length) };
    }
}
