//! A sort buffer: records of any length are appended, sorted, and read again, in memory or in a mapped file.
//! In: records. Out: the same records in order. Equal records keep their order.
//!
//! Above a threshold the records move to a temporary file that is mapped into memory. Sorting works there too: the
//! second file that a merge needs is also mapped. The anonymous memory is at most the threshold, plus the record that
//! is being written piece by piece. While sorting it also has 8 MiB for each thread, 32 MiB for all, and 4 bytes for
//! each thousand records. A folder on a tmpfs uses memory, so choose one on a disk.
//!
//! Sorting has two passes. First, runs of at most 8 MiB (16 MiB if records are small) are sorted separately. Then all
//! runs are merged at once. Each pass is divided among threads. A sort in memory needs additional memory of the size of
//! the records; a sort in a file needs as much additional disk space.
//!
//! The model is Dgraph's `z.Buffer` (dgraph-io/ristretto, `z/buffer.go`), which sorts 20M records of 16 bytes in 9 s
//! and syncs its file to the disk before it deletes it.

mod error;
mod map;
mod merge;
mod options;
mod order;
mod record_length;
mod region;
mod runs;
mod share;
mod sort_run;
mod tournament;

use std::cmp::Ordering;
use std::io::{self, Write};

pub use error::{Result, SortBufferError};
pub use options::Options;
use order::{ByComparison, ByNumber, ByPrefix, Order};
use record_length::RecordLength;
use region::{Region, Threshold};
use sort_run::Most;

/// Records that are appended, sorted and read.
///
/// [`push`](Self::push) appends a whole record. Through [`Write`] a record may also be written piece by piece, as
/// `write!` does: the written bytes are one record, which is open until [`end_record`](Self::end_record). Until then it
/// is in memory, in addition to what [`map_after`](Options::map_after) allows, and is not part of the buffer.
///
/// ```
/// use std::io::Write;
/// use allocanary::sort_buffer::{Options, SortBuffer};
///
/// let mut buffer = SortBuffer::new(Options::default());
/// buffer.push(b"pear")?;
/// write!(buffer, "{}-{}", "apple", 2)?;
/// buffer.end_record()?;
/// buffer.push(b"")?;
/// buffer.sort_by(|a, b| a.cmp(b))?;
/// assert!(buffer.iter().eq([&b""[..], b"apple-2", b"pear"]));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct SortBuffer {
    lengths: RecordLength,
    region: Region,
    count: usize,
    /// The record that is being written.
    open: Vec<u8>,
    record_length: Option<usize>,
    limit: u64,
    threshold: Threshold,
    threads: usize,
    /// The maximum number of records in a run. Tests use a smaller one.
    run_records: usize,
}

impl SortBuffer {
    /// An empty buffer. It creates a file only when it needs one.
    pub fn new(options: Options) -> Self {
        SortBuffer {
            lengths: RecordLength::of(options.record_length),
            region: Region::Memory(Vec::new()),
            count: 0,
            open: Vec::new(),
            record_length: options.record_length,
            limit: options.limit,
            threshold: Threshold { bytes: options.map_after, folder: options.folder },
            threads: options.threads.clamp(1, options::MOST_THREADS),
            run_records: usize::MAX,
        }
    }

    /// Appends a record, which may be empty. On an error the buffer is unchanged.
    #[inline]
    pub fn push(&mut self, record: &[u8]) -> Result<()> {
        if self.record_length.is_some_and(|length| length != record.len()) {
            return Err(self.wrong_length(record.len()));
        }
        let (head, head_bytes) = self.lengths.head(record.len());
        let wanted = head_bytes + record.len();
        let held = self.region.used();
        if wanted as u64 > self.limit.saturating_sub(held as u64) {
            return Err(self.over_limit(wanted));
        }
        if wanted > self.region.room() {
            self.region.grow(wanted, &self.threshold)?;
        }
        if head_bytes > 0 {
            self.region.append(&head[..head_bytes]);
        }
        self.region.append(record);
        self.count += 1;
        Ok(())
    }

    #[cold]
    fn wrong_length(&self, found: usize) -> SortBufferError {
        SortBufferError::RecordLength { wanted: self.record_length.unwrap_or(found), found }
    }

    #[cold]
    fn over_limit(&self, wanted: usize) -> SortBufferError {
        let (wanted, held, limit) = (wanted as u64, self.bytes(), self.limit);
        if wanted > limit {
            SortBufferError::RecordTooLarge { record: wanted, limit }
        } else {
            SortBufferError::Full { wanted, held, limit }
        }
    }

    /// Ends the record that was written through [`Write`], and appends it. If nothing was written, the record is empty.
    /// On an error it stays open, so that it can be ended again, or [dropped](Self::drop_record).
    pub fn end_record(&mut self) -> Result<()> {
        let open = std::mem::take(&mut self.open);
        let pushed = self.push(&open);
        self.open = open;
        if pushed.is_ok() {
            self.open.clear();
        }
        pushed
    }

    /// Drops the record that is being written.
    pub fn drop_record(&mut self) {
        self.open = Vec::new();
    }

    /// The records, in the order in which they were appended or, after a sort, in sorted order.
    pub fn iter(&self) -> Records<'_> {
        Records { lengths: self.lengths, bytes: self.region.bytes(), at: 0, left: self.count }
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The size of the records in bytes, including their lengths.
    pub fn bytes(&self) -> u64 {
        self.region.used() as u64
    }

    /// Whether the records have moved to a mapped file.
    pub fn is_mapped(&self) -> bool {
        matches!(self.region, Region::Mapped(_))
    }

    /// Removes all records and keeps their capacity.
    pub fn clear(&mut self) {
        self.region.clear();
        self.count = 0;
    }

    /// Sorts by a comparison. The sort is stable: equal records keep their order.
    ///
    /// An inconsistent comparison may make it panic, as std's sort does. Then, and if the comparison panics, every
    /// record still exists, in some order.
    pub fn sort_by(&mut self, compare: impl Fn(&[u8], &[u8]) -> Ordering + Sync) -> Result<()> {
        self.sort(&ByComparison(compare))
    }

    /// Sorts by the first `bytes` bytes in lexicographic order: a record that is a prefix of another comes before it.
    /// It is faster than [`sort_by`](Self::sort_by): eight bytes are compared at once, and rarely in the record.
    pub fn sort_by_prefix(&mut self, bytes: usize) -> Result<()> {
        let prefix = ByPrefix(bytes);
        match self.lengths {
            // The number contains the whole prefix, so records with equal numbers have equal prefixes.
            RecordLength::Fixed(length) if bytes <= length.min(8) => {
                self.sort(&ByNumber(|record: &[u8]| prefix.number(record)))
            }
            _ => self.sort(&prefix),
        }
    }

    /// Sorts by a number that `number` finds in the record. Records with equal numbers keep their order. This is the
    /// fastest sort: no record is read to compare it. `number` is called for a record when its run is sorted, and again
    /// when runs are merged, so a number that is slow to compute should be stored in the record.
    pub fn sort_by_number(&mut self, number: impl Fn(&[u8]) -> u64 + Sync) -> Result<()> {
        self.sort(&ByNumber(number))
    }

    fn sort<O: Order>(&mut self, order: &O) -> Result<()> {
        if self.count < 2 {
            return Ok(());
        }
        let mut twin = self.region.twin(&self.threshold.folder)?;
        let bytes = self.region.bytes();
        let mut most = Most::of::<O>(self.lengths, self.threads);
        most.records = most.records.min(self.run_records);
        let mut runs = runs::cut(self.lengths, bytes, most);
        runs::sort(self.lengths, order, self.threads, bytes, twin.bytes_mut(), &mut runs);
        // At every moment `self.region` has all records, so that none is lost if `order` panics.
        std::mem::swap(&mut self.region, &mut twin);
        if runs.len() > 1 {
            merge::merge(self.lengths, order, self.threads, self.region.bytes(), twin.bytes_mut(), &runs);
            std::mem::swap(&mut self.region, &mut twin);
        }
        Ok(())
    }
}

impl Write for SortBuffer {
    /// Adds all of `bytes` to the open record. It fails if the record could never be appended, because it is longer
    /// than `record_length` or than the limit of the buffer. The open record is then unchanged.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = self.open.len() + bytes.len();
        if self.record_length.is_some_and(|wanted| length > wanted) {
            return Err(self.wrong_length(length).into());
        }
        let wanted = self.lengths.head(length).1 + length;
        if wanted as u64 > self.limit {
            return Err(SortBufferError::RecordTooLarge { record: wanted as u64, limit: self.limit }.into());
        }
        let refused = |_| SortBufferError::Memory { wanted: bytes.len() as u64, held: self.region.used() as u64 };
        self.open.try_reserve(bytes.len()).map_err(refused)?;
        self.open.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    /// Does nothing: the open record stays open.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The records of a buffer, one after the other.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    lengths: RecordLength,
    bytes: &'a [u8],
    at: usize,
    left: usize,
}

impl<'a> Iterator for Records<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        self.left = self.left.checked_sub(1)?;
        let place = self.lengths.place(self.bytes, self.at);
        self.at = place.end;
        Some(&self.bytes[place.start..place.end])
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Records<'_> {}

impl<'a> IntoIterator for &'a SortBuffer {
    type Item = &'a [u8];
    type IntoIter = Records<'a>;

    fn into_iter(self) -> Records<'a> {
        self.iter()
    }
}

#[cfg(test)]
mod tests;
