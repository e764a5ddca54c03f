//! The options of a sort buffer: its limits, its folder, its threads.

use std::path::PathBuf;

/// The options of a sort buffer. The default is records of any length, in memory, without a limit.
#[derive(Clone, Debug)]
pub struct Options {
    /// The length of every record in bytes, if all have the same length. They are then stored without their lengths.
    pub record_length: Option<usize>,
    /// The maximum size of the buffer in bytes, including the lengths of records (one byte for each length below 128).
    pub limit: u64,
    /// The maximum number of bytes in memory. With more, the buffer moves to a mapped file and stays there. With `None`
    /// it never moves. A record that is still being written is in memory in addition.
    pub map_after: Option<usize>,
    /// The folder of the temporary files; by default the system's (`TMPDIR`, or `/tmp`). On a tmpfs they use memory.
    pub folder: PathBuf,
    /// Number of sorting threads: from 1 to 8. The default is the number of CPUs available to this process.
    pub threads: usize,
}

/// The maximum number of threads. With more, each thread would have too little memory for sorting: the runs would be
/// shorter, and more of them would have to be merged.
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
