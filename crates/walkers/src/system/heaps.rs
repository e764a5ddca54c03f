//! The pieces of memory that an arena has. A thread arena has heaps, mostly of up to 64 MiB, that point to each other. The main arena has the data
//! segment; what it got from `mmap` because the data segment could not grow is found by `mappings.rs`.

use super::arenas::{Arena, end_now};
use super::chunks::Extent;
use super::structures::Structures;
use crate::{Memory, PAGE};

/// A heap, or another piece of an arena's memory, with the structures before its first block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    /// Where it begins.
    pub from: u64,
    /// Its blocks.
    pub blocks: Extent,
}

/// The heaps of a thread arena. `None` if they do not lead from the arena's end to its beginning.
pub(super) fn of_thread(memory: &dyn Memory, arena: &Arena, index: u32, found: &Structures) -> Option<Vec<Piece>> {
    let (release, heap) = (found.release, found.params.heap);
    let mut heaps = Vec::new();
    let mut from = arena.top & !(heap - 1);
    // No heap is there twice, so there are not more of them than mappings could have.
    let most = memory.mappings().iter().map(|one| one.bytes() / heap + 1).sum::<u64>();
    for _ in 0..most {
        let [owner, before, size] = [0, 8, 16].map(|at| memory.word(from + at));
        let (owner, before, size) = (owner?, before?, size?);
        if owner != arena.at || size > heap || size % PAGE != 0 {
            return None;
        }
        let first = from + release.heap_header == arena.at;
        let header = release.heap_header + if first { release.arena } else { 0 };
        let end = from + size;
        let to = end.min(mapped_end(memory, from)?);
        let blocks = Extent {
            from: (from + header).next_multiple_of(16),
            to,
            end,
            arena: index,
            // Where it has grown since, its end is not looked at.
            top: heaps.is_empty().then_some(arena.top).filter(|&top| top < to || to == end),
            shrinks: false,
        };
        // The end of the arena is in its last heap.
        let has_end = !heaps.is_empty() || blocks.from <= arena.top && arena.top <= end;
        if blocks.from > blocks.to || !has_end {
            return None;
        }
        heaps.push(Piece { from, blocks });
        if first {
            return Some(heaps);
        }
        from = before;
        if !from.is_multiple_of(heap) {
            return None;
        }
    }
    None
}

/// The main arena's memory if it is in one piece: from where it began to its end. The arena can have grown since the mappings were read: then it
/// is walked as far as they go.
pub(super) fn of_main(memory: &dyn Memory, arena: &Arena, found: &Structures) -> Option<Piece> {
    let base = found.params.base;
    let (top, end) = end_now(memory, arena.at, found.release.bins)?;
    let to = end.min(mapped_end(memory, base)?);
    let from = base.checked_next_multiple_of(16)?;
    // It has not become twice as large meanwhile.
    let whole = base != 0 && from <= top && end - top >= 16 && end - to <= arena.system;
    let top = Some(top).filter(|&top| top < to);
    let shrinks = ends_data_segment(memory, to);
    whole.then_some(Piece { from: base, blocks: Extent { from, to, end, arena: 0, top, shrinks } })
}

/// Where the memory ends that is mapped from an address on without a hole, for reading and writing.
fn mapped_end(memory: &dyn Memory, from: u64) -> Option<u64> {
    let mut to = None;
    while let Some(mapping) = memory.mapping(to.unwrap_or(from)).filter(|one| one.readable && one.writable) {
        to = Some(mapping.to);
    }
    to
}

/// Whether the data segment ends at an address. Only there can the main arena be made smaller.
pub(super) fn ends_data_segment(memory: &dyn Memory, to: u64) -> bool {
    memory.mapping(to.saturating_sub(1)).is_some_and(|one| one.name == "[heap]" && one.to == to)
}
