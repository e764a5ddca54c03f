//! PHP: its memory manager has chunks of 2 MiB at multiples of that. A chunk begins with its heap, the next and the previous chunk of a
//! ring, and the number of its free pages (`Zend/zend_alloc.c`, releases 7 and 8).

use super::{Runtime, Sight};
use crate::Mapping;

/// Its heap.
pub const HEAP: Runtime = Runtime {
    name: "PHP's heap",
    how: "chunks at multiples of 2 MiB in a ring that closes, and what adjoins them",
    tool: "memory_get_usage(), php-memory-profiler; or start with USE_ZEND_ALLOC=0",
    is_here: |sight| sight.executable.starts_with("php") || sight.has_file("libphp"),
    owns,
};

/// Chunks lie at its multiples.
const CHUNK: u64 = 2 << 20;
/// The pages of a chunk.
const PAGES: u64 = 512;

/// Blocks of more than a chunk are mappings of their own. The kernel makes one of those that adjoin.
fn owns(sight: &Sight, mapping: &Mapping) -> bool {
    let runs = sight.memory.pages().within(mapping.from, mapping.to).filter(|run| run.state.is_resident());
    let mut places = runs.flat_map(|run| (run.from.next_multiple_of(CHUNK)..run.to).step_by(CHUNK as usize));
    places.any(|at| is_chunk(sight, at))
}

fn is_chunk(sight: &Sight, at: u64) -> bool {
    let word = |at: u64| sight.memory.word(at).unwrap_or_default();
    let (heap, next, previous, free) = (word(at), word(at + 8), word(at + 16), word(at + 24));
    let in_ring = |chunk: u64| chunk != 0 && chunk.is_multiple_of(CHUNK) && chunk < 1 << 47;
    let (free, tail) = (free & u64::from(u32::MAX), free >> 32);
    heap != 0
        && free < PAGES
        && tail <= PAGES
        && in_ring(next)
        && in_ring(previous)
        && word(next + 16) == at
        && word(previous + 8) == at
}
