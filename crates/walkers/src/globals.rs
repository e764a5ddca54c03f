//! Finds the global variables of a program and its libraries, and visits the words in them.

use std::ops::Range;

use super::elf;
use crate::{Fact, Mapping, Memory};

/// How many bytes are read at once.
const PIECE: u64 = 1 << 20;

/// The most bytes behind a file's mapping that are searched for variables, if the file's header cannot be read.
const LONGEST: u64 = 64 << 20;

/// The ranges with the global variables of each file: its writable mappings, and the memory behind them up to the end that its ELF header
/// gives. Memory directly behind that end can be something else.
pub fn globals(memory: &dyn Memory) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    let mut end = 0;
    let mut file = "";
    for mapping in memory.mappings() {
        if mapping.inode != 0 && (mapping.name != file || mapping.offset == 0) {
            let known = if mapping.name == file { end } else { u64::MAX };
            end = elf_end(memory, mapping).unwrap_or(known);
            file = &mapping.name;
        }
        if !mapping.writable || !mapping.readable || mapping.shared {
            continue;
        }
        match ranges.last_mut() {
            Some(last) if last.end == mapping.from && mapping.from < end && !mapping.name.starts_with('[') => {
                last.end = mapping.to.min(end).min(mapping.from.saturating_add(LONGEST));
            }
            _ if mapping.inode != 0 => ranges.push(mapping.from..mapping.to),
            _ => {}
        }
    }
    ranges
}

/// The address where the last segment of an ELF file ends. `mapping` has the beginning of the file.
fn elf_end(memory: &dyn Memory, mapping: &Mapping) -> Option<u64> {
    let read = elf::mapped(memory, mapping.from);
    let of_file = if mapping.offset == 0 { memory.fact(mapping, Fact::Extent) } else { None };
    let extent = of_file.unwrap_or_else(|| elf::ElfHeader::read(&read)?.extent(&read, memory.machine()))?;
    // `mapping.from` is the start of a page, so this is one too.
    mapping.from.checked_add(extent)
}

/// Visits the resident bytes of a range in pieces. `visit` gets the address of the first byte, and the bytes.
pub fn each_piece(memory: &dyn Memory, range: &Range<u64>, mut visit: impl FnMut(u64, &[u8])) {
    let mut bytes = Vec::new();
    for run in memory.pages().within(range.start, range.end) {
        if !run.state.is_resident() {
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

/// Visits each aligned word of a range that is resident and not zero. `visit` gets its address and the word.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeMemory;

    /// A file with its header, its variables, and memory that the kernel has put right behind it.
    fn fake(magic: u64) -> FakeMemory {
        let mut fake = FakeMemory::default();
        fake.map(0x10000, 0x1000, false, 7, "/bin/program");
        fake.map(0x11000, 0x1000, true, 7, "/bin/program");
        fake.map(0x12000, 0x9000, true, 0, "");
        fake.map(0x1b000, 0x1000, true, 0, "[heap]");
        fake.put(0x10000, &[magic, 0, 0, 0, 64, 0, 0, 1]);
        fake.put(0x10040, &[1, 0, 0x400000, 0, 0x1f00, 0x3800]);
        fake.put(0x11ff8, &[5, 6]);
        fake.done()
    }

    #[test]
    fn variables_end_where_the_header_says_and_what_adjoins_is_none() {
        assert_eq!(globals(&fake(0x2_464c_457f)), vec![Range { start: 0x11000, end: 0x14000 }]);
        assert_eq!(globals(&fake(0)), vec![Range { start: 0x11000, end: 0x1b000 }]);
    }

    #[test]
    fn words_are_visited_with_their_addresses() {
        let mut words = Vec::new();
        each_word(&fake(0), &(0x11000..0x14000), |at, word| words.push((at, word)));
        assert_eq!(words, [(0x11ff8, 5), (0x12000, 6)]);
    }
}
