//! Finds the pieces of memory of an arena. A thread arena has heaps, mostly of up to 64 MiB, that point to each other. The main arena has
//! the data segment. If the data segment cannot grow, the main arena takes more memory by `mmap`, which `mappings.rs` finds.
//!
//! A program can change the rights of pages inside of its blocks, such as the guards of stacks that it allocates. So a
//! piece need not be one mapping, and some of its pages may not be readable.

use super::arenas::{Arena, end_now};
use super::chunks::Extent;
use super::structures::Structures;
use crate::Memory;

/// A heap, or another piece of an arena's memory, with the structures before its first block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    /// Where it begins.
    pub from: u64,
    /// Its blocks.
    pub blocks: Extent,
}

/// The heaps of a thread arena. `None` if the chain of heaps does not lead from the arena's end to its begin.
pub(super) fn of_thread(memory: &dyn Memory, arena: &Arena, index: u32, found: &Structures) -> Option<Vec<Piece>> {
    let (release, heap) = (found.release, found.params.heap);
    let mut heaps = Vec::new();
    let mut from = arena.top & !(heap - 1);
    // This ends a chain that is a circle: there cannot be more heaps than fit in the mappings.
    let most = memory.mappings().iter().map(|one| one.bytes() / heap + 1).sum::<u64>();
    for _ in 0..most {
        let [owner, before, size] = [0, 8, 16].map(|at| memory.word(from + at));
        let (owner, before, size) = (owner?, before?, size?);
        if owner != arena.at || size > heap || size % memory.machine().page != 0 {
            return None;
        }
        let first = from + release.heap_header == arena.at;
        let header = release.heap_header + if first { release.arena } else { 0 };
        let end = from + size;
        let to = mapped_end(memory, from, end)?;
        let blocks = Extent {
            from: (from + header).next_multiple_of(16),
            to,
            end,
            arena: index,
            // If the heap has grown since the mappings were read, the free block at its end may be outside of them. Then the block is not
            // used.
            top: heaps.is_empty().then_some(arena.top).filter(|&top| top < to || to == end),
            shrinks: false,
        };
        // The end of the arena must be in its last heap.
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

/// The main arena's memory, if it is in one piece, from its begin to its end. If the arena has grown since the mappings were read, the walk
/// ends where the mappings end.
pub(super) fn of_main(memory: &dyn Memory, arena: &Arena, found: &Structures) -> Option<Piece> {
    let base = found.params.base;
    let (top, end) = end_now(memory, arena.at, found.release.bins)?;
    let to = mapped_end(memory, base, end)?;
    let from = base.checked_next_multiple_of(16)?;
    // A heap that has more than doubled since the mappings were read is not accepted.
    let whole = base != 0 && from <= top && end - top >= 16 && end - base <= arena.system.saturating_mul(2);
    let top = Some(top).filter(|&top| top < to);
    let shrinks = ends_data_segment(memory, to);
    whole.then_some(Piece { from: base, blocks: Extent { from, to, end, arena: 0, top, shrinks } })
}

/// The end of the readable and writable memory between `from` and the present `end`, when the mappings were read. Memory behind it was
/// added later. Pages without these rights that lie before it are holes in the heap.
fn mapped_end(memory: &dyn Memory, from: u64, end: u64) -> Option<u64> {
    memory.mapping(from).filter(|one| one.readable && one.writable)?;
    let all = memory.mappings();
    let before = &all[..all.partition_point(|one| one.from < end)];
    let last = before.iter().rev().take_while(|one| one.to > from).find(|one| one.readable && one.writable)?;
    Some(last.to.min(end))
}

/// Whether the data segment ends at an address. The main arena can be made smaller only there.
pub(super) fn ends_data_segment(memory: &dyn Memory, to: u64) -> bool {
    memory.mapping(to.saturating_sub(1)).is_some_and(|one| one.name == "[heap]" && one.to == to)
}
