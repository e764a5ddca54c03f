//! What an allocator counts itself, and what its counts are read by. In: a memory of which bytes can be copied. Out: numbers.

use serde::{Deserialize, Serialize};

use crate::Memory;

/// What an allocator counts. `None` is what it does not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocatorCounters {
    /// Arenas.
    pub arenas: u64,
    /// Bytes that it has from the kernel.
    pub mapped: Option<u64>,
    /// Of these, the bytes of blocks that have their own pages.
    pub mmapped: Option<u64>,
    /// Bytes of pages that are in use.
    pub active: Option<u64>,
}

/// What can be copied of a process.
pub trait MemoryReader {
    /// Copies `into.len()` bytes from an address. Returns whether all were copied.
    fn copy(&self, at: u64, into: &mut [u8]) -> bool;

    /// A word.
    fn word(&self, at: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.copy(at, &mut bytes).then(|| u64::from_le_bytes(bytes))
    }
}

/// A memory of a test.
impl MemoryReader for crate::fake::FakeMemory {
    fn copy(&self, at: u64, into: &mut [u8]) -> bool {
        self.read(at, into)
    }
}
