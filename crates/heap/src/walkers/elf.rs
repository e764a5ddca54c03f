//! The header of an ELF file that is mapped. In: a memory. Out: its segments.

use crate::Memory;

/// A segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Where it is in the file, in bytes.
    pub offset: u64,
    /// Its address, as the file has it.
    pub at: u64,
    /// Bytes in memory.
    pub bytes: u64,
}

/// The header of a file with 64-bit addresses.
#[derive(Clone, Copy, Debug)]
pub struct Header {
    at: u64,
    table: u64,
    count: u64,
}

impl Header {
    /// The header at the first address of a mapped file.
    pub fn read(memory: &dyn Memory, at: u64) -> Option<Header> {
        let mut bytes = [0; 64];
        let whole = memory.read(at, &mut bytes) && bytes[..5] == *b"\x7fELF\x02";
        let header = Header { at, table: number(&bytes, 32, 8), count: number(&bytes, 56, 2) };
        (whole && header.count <= 64).then_some(header)
    }

    /// The segments of a type: 1 is loaded, 4 is a note.
    pub fn segments(&self, memory: &dyn Memory, kind: u64) -> Vec<Segment> {
        let mut bytes = vec![0; 56 * self.count as usize];
        if !self.at.checked_add(self.table).is_some_and(|table| memory.read(table, &mut bytes)) {
            return Vec::new();
        }
        let segment = |bytes: &[u8]| Segment {
            offset: number(bytes, 8, 8),
            at: number(bytes, 16, 8),
            bytes: number(bytes, 40, 8),
        };
        bytes.chunks_exact(56).filter(|bytes| number(bytes, 0, 4) == kind).map(segment).collect()
    }
}

/// The number in some bytes.
pub fn number(bytes: &[u8], at: usize, count: usize) -> u64 {
    let mut word = [0; 8];
    word[..count].copy_from_slice(&bytes[at..at + count]);
    u64::from_le_bytes(word)
}
