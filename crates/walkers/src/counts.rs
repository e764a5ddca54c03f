//! The counts of an allocator, and the trait for reading them.

use serde::{Deserialize, Serialize};

use crate::Memory;

/// The counts of an allocator. `None` for a count that it does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocatorCounters {
    /// The number of arenas.
    pub arenas: u64,
    /// Bytes that it has from the kernel.
    pub mapped: Option<u64>,
    /// The part of `mapped` in blocks that have their own pages.
    pub mmapped: Option<u64>,
    /// Bytes of pages that are in use.
    pub active: Option<u64>,
}

/// Copies bytes of a process.
pub trait MemoryReader {
    /// Copies `into.len()` bytes from an address. Returns whether all were copied.
    fn copy(&self, at: u64, into: &mut [u8]) -> bool;

    /// The word at an address.
    fn word(&self, at: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.copy(at, &mut bytes).then(|| u64::from_le_bytes(bytes))
    }
}

impl MemoryReader for crate::fake::FakeMemory {
    fn copy(&self, at: u64, into: &mut [u8]) -> bool {
        self.read(at, into)
    }
}
