//! Why a sort buffer failed. In: the operation. Out: one line that names it, what was expected, what was found, and
//! what to do next.

use std::io;
use std::path::PathBuf;

/// The error of a sort buffer. After each error its records still exist and can be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SortBufferError {
    /// One record is larger than the limit of the buffer. Sizes in bytes.
    #[error("a record takes {record} bytes and the buffer may hold {limit}: raise its limit or cut the record")]
    RecordTooLarge {
        /// The size of the record, including its length.
        record: u64,
        /// The limit of the buffer.
        limit: u64,
    },
    /// The buffer is full. Sizes in bytes.
    #[error(
        "a buffer that may hold {limit} bytes holds {held} and was given {wanted} more: raise its limit or empty it"
    )]
    Full {
        /// The size of the record, including its length.
        wanted: u64,
        /// The size of the buffer.
        held: u64,
        /// The limit of the buffer.
        limit: u64,
    },
    /// A record with another length than `record_length`. Sizes in bytes.
    #[error("wanted a record of {wanted} bytes, found {found}: leave `record_length` out for records that vary")]
    RecordLength {
        /// The value of `record_length`.
        wanted: usize,
        /// The length of the record.
        found: usize,
    },
    /// The allocator has no more memory. Sizes in bytes.
    #[error("no memory for {wanted} bytes beside the {held} that the buffer holds: set `map_after`, or a lower one")]
    Memory {
        /// The requested size.
        wanted: u64,
        /// The size of the buffer.
        held: u64,
    },
    /// The folder has no place for a temporary file: it is missing, read-only, or not ours to write.
    #[error("{folder}: could not {doing} a temporary file: {source}: choose another `folder`")]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// The operation that failed.
        doing: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The disk has no room for the file.
    #[error(
        "{folder}: no room for a temporary file of {wanted} bytes (the buffer holds {held}): free some or choose another `folder`: {source}"
    )]
    DiskFull {
        /// The folder.
        folder: PathBuf,
        /// The requested length of the file, in bytes.
        wanted: u64,
        /// The size of the buffer, in bytes.
        held: u64,
        /// The system's error.
        source: io::Error,
    },
}

/// A result with the sort buffer's error.
pub type Result<T> = std::result::Result<T, SortBufferError>;

impl From<SortBufferError> for io::Error {
    fn from(error: SortBufferError) -> Self {
        let kind = match &error {
            SortBufferError::RecordTooLarge { .. } | SortBufferError::Full { .. } => io::ErrorKind::FileTooLarge,
            SortBufferError::RecordLength { .. } => io::ErrorKind::InvalidInput,
            SortBufferError::Memory { .. } => io::ErrorKind::OutOfMemory,
            SortBufferError::DiskFull { .. } => io::ErrorKind::StorageFull,
            SortBufferError::Folder { source, .. } => source.kind(),
        };
        io::Error::new(kind, error)
    }
}
