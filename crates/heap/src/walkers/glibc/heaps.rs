//! The pieces of memory that an arena has. A thread arena has heaps, mostly of up to 64 MiB, that point to each other. The main arena has the data
//! segment; what it got from `mmap` because the data segment could not grow is found by `mappings.rs`.

use super::arenas::Arena;
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
        let blocks = Extent {
            from: (from + header).next_multiple_of(16),
            to: from + size,
            arena: index,
            top: heaps.is_empty().then_some(arena.top),
            shrinks: false,
        };
        // The end of the arena is in its last heap.
        let has_end = blocks.top.is_none_or(|top| blocks.from <= top && top <= blocks.to);
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

/// The main arena's memory if it is in one piece: from where it began to its end.
pub(super) fn of_main(memory: &dyn Memory, arena: &Arena, base: u64) -> Option<Piece> {
    let size = memory.word(arena.top.checked_add(8)?)? & !7;
    let to = arena.top.checked_add(size)?;
    let shrinks = ends_data_segment(memory, to);
    let blocks = Extent { from: base.checked_next_multiple_of(16)?, to, arena: 0, top: Some(arena.top), shrinks };
    let whole = base != 0 && blocks.from <= arena.top && size >= 16 && covered(memory, base, to);
    whole.then_some(Piece { from: base, blocks })
}

/// Whether mappings cover a range without a hole.
fn covered(memory: &dyn Memory, from: u64, to: u64) -> bool {
    let mut at = from;
    while at < to {
        let Some(mapping) = memory.mapping(at) else { return false };
        at = mapping.to;
    }
    true
}

/// Whether the data segment ends at an address. Only there can the main arena be made smaller.
pub(super) fn ends_data_segment(memory: &dyn Memory, to: u64) -> bool {
    memory.mapping(to.saturating_sub(1)).is_some_and(|one| one.name == "[heap]" && one.to == to)
}
