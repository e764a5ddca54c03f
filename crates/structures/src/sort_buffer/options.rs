//! What a sort buffer may do: its limits, its folder, its threads.

use std::path::PathBuf;

/// What a sort buffer may do. The default holds records of any length, in memory, without a limit.
#[derive(Clone, Debug)]
pub struct Options {
    /// The length of every record in bytes, where all have the same: they then lie side by side, without their lengths.
    pub record_length: Option<usize>,
    /// The most bytes that the buffer may hold, lengths of records included (a byte each below 128).
    pub limit: u64,
    /// The most bytes in memory; with more the buffer moves to a mapped file, for good. None: it never does. A record that
    /// is still being written is in memory beside them.
    pub map_after: Option<usize>,
    /// The folder of the temporary files; the system's by default (`TMPDIR`, or `/tmp`). On a tmpfs they are memory.
    pub folder: PathBuf,
    /// Threads that sort: from 1 to 8. By default the processors that this process may use.
    pub threads: usize,
}

/// More threads than this would share the memory that sorting may take in pieces too small: shorter runs, and more to merge.
pub(super) const MOST_THREADS: usize = 8;

impl Default for Options {
    fn default() -> Self {
        Options {
            record_length: None,
            limit: u64::MAX,
            map_after: None,
            folder: std::env::temp_dir(),
            threads: std::thread::available_parallelism().map_or(1, |count| count.get()),
        }
    }
}
