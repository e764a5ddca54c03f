//! Copies a process's pages that can be written or were relocated, so that they can be searched.

use std::ops::Range;

use allocanary_heap::{CopyRoom, Mapping, Memory, MemoryCopy, PageState};

use crate::roots::{is_own, is_written};

/// How many bytes would be copied.
pub fn bytes_of(memory: &dyn Memory) -> u64 {
    wanted(memory).iter().map(|range| range.end - range.start).sum()
}

/// Room for the copy, and a little more: the memory may grow before the copying.
pub fn room_for(memory: &dyn Memory) -> CopyRoom {
    let bytes = bytes_of(memory);
    CopyRoom::of(bytes + bytes / 32)
}

/// Copies all pages that can be written, and those that were relocated when the program was loaded.
pub fn whole(memory: &dyn Memory, room: CopyRoom) -> MemoryCopy<'_> {
    MemoryCopy::of_all(memory, &wanted(memory), room).listing_blocks()
}

/// Copies ranges, which are in the order of their addresses. Other bytes are read from the memory when they are needed.
pub fn part<'a>(memory: &'a dyn Memory, ranges: &[Range<u64>]) -> MemoryCopy<'a> {
    MemoryCopy::of_part(memory, ranges, CopyRoom::of(0)).listing_blocks()
}

/// The ranges of pages that are copied, in the order of their addresses.
fn wanted(memory: &dyn Memory) -> Vec<Range<u64>> {
    let mappings = memory.mappings();
    let mut ranges: Vec<Range<u64>> = Vec::new();
    let mut add = |from: u64, to: u64| match ranges.last_mut() {
        Some(last) if last.end == from => last.end = to,
        _ => ranges.push(from..to),
    };
    // Pages of shared memory that only other processes have written are not resident in this process, so such a mapping is copied as a
    // whole.
    let mut left = MOST_SHARED;
    for (index, mapping) in mappings.iter().enumerate() {
        if !is_written(mapping) || is_device(mapping) {
            continue;
        }
        if mapping.shared && mapping.is_memory_file() && mapping.bytes() <= left {
            left -= mapping.bytes();
            add(mapping.from, mapping.to);
            continue;
        }
        let is_relocated = is_relocated(mapping, mappings.get(index + 1));
        let is_copied = |state: PageState| is_own(mapping, state) || is_relocated && state.is_resident();
        let runs = memory.pages().within(mapping.from, mapping.to).filter(|run| is_copied(run.state));
        runs.for_each(|run| add(run.from, run.to));
    }
    ranges
}

/// The most bytes of shared memory that are copied as a whole, with pages that are not resident in this process.
const MOST_SHARED: u64 = 64 << 20;

/// Whether it is a device, where a read could have effects.
fn is_device(mapping: &Mapping) -> bool {
    mapping.name.starts_with("/dev/") && !mapping.is_memory_file()
}

/// Whether a mapping was relocated and then protected, so that its bytes differ from the file's. Such a mapping lies before the data of the
/// same file.
fn is_relocated(mapping: &Mapping, next: Option<&Mapping>) -> bool {
    let of_file = mapping.inode != 0 && !mapping.executable && !mapping.shared;
    of_file
        && next.is_some_and(|next| {
            next.from == mapping.to && next.writable && (next.inode == mapping.inode || next.inode == 0)
        })
}
