//! Reads the header of an ELF file, from the file or from memory that it is mapped to, and finds its segments.

use crate::{Machine, Memory};

/// Reads bytes at a file offset. Returns whether all could be read.
pub type ReadAt<'a> = &'a dyn Fn(u64, &mut [u8]) -> bool;

/// A reader for a file whose beginning is mapped at an address.
pub fn mapped(memory: &dyn Memory, at: u64) -> impl Fn(u64, &mut [u8]) -> bool + '_ {
    move |place, into| at.checked_add(place).is_some_and(|at| memory.read(at, into))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElfSegment {
    /// Its address as written in the file, before relocation.
    pub at: u64,
    /// Bytes in memory.
    pub bytes: u64,
}

/// The header of an ELF file with 64-bit addresses.
#[derive(Clone, Copy, Debug)]
pub struct ElfHeader {
    table: u64,
    count: u64,
}

impl ElfHeader {
    /// Reads the header. `None` if it cannot be read, is not 64-bit ELF, or has more than 64 segments.
    pub fn read(read: ReadAt) -> Option<ElfHeader> {
        let mut bytes = [0; 64];
        let whole = read(0, &mut bytes) && bytes[..5] == *b"\x7fELF\x02";
        let header = ElfHeader { table: number(&bytes, 32, 8), count: number(&bytes, 56, 2) };
        (whole && header.count <= 64).then_some(header)
    }

    /// The segments of the type `PT_LOAD`.
    fn loaded(&self, read: ReadAt) -> Vec<ElfSegment> {
        const LOADED: u64 = 1;
        let mut bytes = vec![0; 56 * self.count as usize];
        if !read(self.table, &mut bytes) {
            return Vec::new();
        }
        let segment = |bytes: &[u8]| ElfSegment { at: number(bytes, 16, 8), bytes: number(bytes, 40, 8) };
        bytes.chunks_exact(56).filter(|bytes| number(bytes, 0, 4) == LOADED).map(segment).collect()
    }

    /// The bytes from the first segment to the end of the last one, in whole pages of a machine.
    pub fn extent(&self, read: ReadAt, machine: Machine) -> Option<u64> {
        let segments = self.loaded(read);
        let first = segments.iter().map(|segment| machine.page_of(segment.at)).min()?;
        let last = segments.iter().filter_map(|segment| segment.at.checked_add(segment.bytes)).max()?;
        last.checked_sub(first)?.checked_next_multiple_of(machine.page)
    }
}

/// The little-endian number of `count` bytes at the offset `at`.
fn number(bytes: &[u8], at: usize, count: usize) -> u64 {
    let mut word = [0; 8];
    word[..count].copy_from_slice(&bytes[at..at + count]);
    u64::from_le_bytes(word)
}
