//! Why a sort buffer refused. In: what was being done. Out: one line that names it, what was wanted, what was found, and
//! what to do next.

use std::io;
use std::path::PathBuf;

/// What a sort buffer answers. The records that it holds stay, and stay readable, after each of them.
#[derive(Debug, thiserror::Error)]
pub enum SortBufferError {
    /// One record is larger than the whole buffer may be. In bytes.
    #[error("a record takes {record} bytes and the buffer may hold {limit}: raise its limit or cut the record")]
    RecordTooLarge {
        /// What the record takes, with its length.
        record: u64,
        /// What the buffer may hold.
        limit: u64,
    },
    /// The buffer is full. In bytes.
    #[error(
        "a buffer that may hold {limit} bytes holds {held} and was given {wanted} more: raise its limit or empty it"
    )]
    Full {
        /// What the record takes, with its length.
        wanted: u64,
        /// What the buffer holds.
        held: u64,
        /// What it may hold.
        limit: u64,
    },
    /// A record of another length in a buffer of records that all have the same. In bytes.
    #[error("wanted a record of {wanted} bytes, found {found}: leave `record_length` out for records that vary")]
    RecordLength {
        /// What `record_length` says.
        wanted: usize,
        /// What came.
        found: usize,
    },
    /// The allocator has no more memory. In bytes.
    #[error("no memory for {wanted} bytes beside the {held} that the buffer holds: set `map_after`, or a lower one")]
    Memory {
        /// What was asked for.
        wanted: u64,
        /// What the buffer holds.
        held: u64,
    },
    /// The folder has no place for a temporary file: it is missing, read-only, or not ours to write.
    #[error("{folder}: could not {doing} a temporary file: {source}: choose another `folder`")]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// What was being done.
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The disk has no room for the file.
    #[error(
        "{folder}: no room for a temporary file of {wanted} bytes (the buffer holds {held}): free some or choose another `folder`: {source}"
    )]
    DiskFull {
        /// The folder.
        folder: PathBuf,
        /// How long the file was to be, in bytes.
        wanted: u64,
        /// What the buffer holds, in bytes.
        held: u64,
        /// What the system said.
        source: io::Error,
    },
}

/// A result whose error is the sort buffer's.
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
