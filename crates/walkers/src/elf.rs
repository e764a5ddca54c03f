//! The header of an ELF file. In: what reads bytes of the file, or of the memory that it is mapped to. Out: its segments.

use crate::{Memory, PAGE};

/// Reads bytes from a place of the file. Returns whether all could be read.
pub type ReadAt<'a> = &'a dyn Fn(u64, &mut [u8]) -> bool;

/// A file by the memory to which its beginning is mapped.
pub fn mapped(memory: &dyn Memory, at: u64) -> impl Fn(u64, &mut [u8]) -> bool + '_ {
    move |place, into| at.checked_add(place).is_some_and(|at| memory.read(at, into))
}

/// A segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElfSegment {
    /// Its address, as the file has it.
    pub at: u64,
    /// Bytes in memory.
    pub bytes: u64,
}

/// The header of a file with 64-bit addresses.
#[derive(Clone, Copy, Debug)]
pub struct ElfHeader {
    table: u64,
    count: u64,
}

impl ElfHeader {
    /// The header at the beginning of a file.
    pub fn read(read: ReadAt) -> Option<ElfHeader> {
        let mut bytes = [0; 64];
        let whole = read(0, &mut bytes) && bytes[..5] == *b"\x7fELF\x02";
        let header = ElfHeader { table: number(&bytes, 32, 8), count: number(&bytes, 56, 2) };
        (whole && header.count <= 64).then_some(header)
    }

    /// The segments that are loaded.
    fn loaded(&self, read: ReadAt) -> Vec<ElfSegment> {
        const LOADED: u64 = 1;
        let mut bytes = vec![0; 56 * self.count as usize];
        if !read(self.table, &mut bytes) {
            return Vec::new();
        }
        let segment = |bytes: &[u8]| ElfSegment { at: number(bytes, 16, 8), bytes: number(bytes, 40, 8) };
        bytes.chunks_exact(56).filter(|bytes| number(bytes, 0, 4) == LOADED).map(segment).collect()
    }

    /// The bytes from the first segment to the end of the last one, in whole pages.
    pub fn extent(&self, read: ReadAt) -> Option<u64> {
        let segments = self.loaded(read);
        let first = segments.iter().map(|segment| segment.at / PAGE * PAGE).min()?;
        let last = segments.iter().filter_map(|segment| segment.at.checked_add(segment.bytes)).max()?;
        last.checked_sub(first)?.checked_next_multiple_of(PAGE)
    }
}

/// The number in some bytes.
fn number(bytes: &[u8], at: usize, count: usize) -> u64 {
    let mut word = [0; 8];
    word[..count].copy_from_slice(&bytes[at..at + count]);
    u64::from_le_bytes(word)
}
