//! Where a program and its libraries keep their global variables. In: a memory. Out: ranges, and the words in them.

use std::ops::Range;

use crate::{Memory, State};

/// The bytes that are read at once.
const PIECE: u64 = 1 << 20;

/// The global variables of each file: its writable mappings, and the memory without a file that adjoins them.
pub fn globals(memory: &dyn Memory) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for mapping in memory.mappings().iter().filter(|one| one.writable && one.readable && !one.shared) {
        match ranges.last_mut() {
            Some(last) if last.end == mapping.from && !mapping.name.starts_with('[') => last.end = mapping.to,
            _ if mapping.inode != 0 => ranges.push(mapping.from..mapping.to),
            _ => {}
        }
    }
    ranges
}

/// Visits the resident bytes of a range, piece by piece: the address of the first byte, and the bytes.
pub fn each_piece(memory: &dyn Memory, range: &Range<u64>, mut visit: impl FnMut(u64, &[u8])) {
    let mut bytes = Vec::new();
    for run in memory.pages().within(range.start, range.end) {
        if !matches!(run.state, State::Resident | State::Huge) {
            continue;
        }
        let mut from = run.from;
        while from < run.to {
            let to = run.to.min(from / PIECE * PIECE + PIECE);
            bytes.resize((to - from) as usize, 0);
            if memory.read(from, &mut bytes) {
                visit(from, &bytes);
            }
            from = to;
        }
    }
}

/// Visits each aligned word that is resident in a range and is not zero: its address, and the word.
pub fn each_word(memory: &dyn Memory, range: &Range<u64>, mut visit: impl FnMut(u64, u64)) {
    each_piece(memory, &(range.start.next_multiple_of(8)..range.end / 8 * 8), |from, bytes| {
        for (at, word) in bytes.chunks_exact(8).enumerate() {
            let word = u64::from_le_bytes(word.try_into().expect("a chunk has eight bytes"));
            if word != 0 {
                visit(from + 8 * at as u64, word);
            }
        }
    });
}
