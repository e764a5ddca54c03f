//! The process and its memory for which remedies are made, and whether a number of bytes is worth a remedy.

use allocanary_heap::Reading;

use crate::identity::file_name;
use crate::process::ProcessFacts;

/// A remedy for less than 1 / `LEAST` of the resident bytes is not shown.
const LEAST: u64 = 20;

/// The process and its memory, for which remedies are made.
pub(crate) struct Subject<'a> {
    /// The process's memory.
    pub reading: &'a Reading,
    /// The other facts that the process shows.
    pub process: &'a ProcessFacts,
}

impl Subject<'_> {
    /// Whether this many bytes are worth a remedy.
    pub fn matters(&self, bytes: u64) -> bool {
        matters(self.reading, bytes)
    }

    /// Whether an allocator can be preloaded into it: it has a dynamic loader.
    pub fn is_dynamic(&self) -> bool {
        self.process.maps.files.iter().any(|file| {
            let name = file_name(&file.path);
            name.starts_with("ld-linux") || name.starts_with("ld-2.") || name.starts_with("ld-musl")
        })
    }
}

/// Whether this many bytes of a process are worth a remedy.
pub fn matters(reading: &Reading, bytes: u64) -> bool {
    bytes > 0 && bytes.saturating_mul(LEAST) >= reading.resident
}
