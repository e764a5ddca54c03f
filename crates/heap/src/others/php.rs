//! Recognises PHP's heap. It has chunks of 2 MiB at multiples of 2 MiB. A chunk begins with a pointer to its heap, pointers to the next and
//! the previous chunk of a ring, and the number of its free pages (`Zend/zend_alloc.c`, releases 7 and 8). Between requests PHP keeps a
//! list of empty chunks, as many as its requests needed on average. After big requests these are most of a worker's memory.

use std::collections::BTreeSet;

use super::{RuntimeHeap, Sight};
use crate::Mapping;

/// PHP's heap.
pub const HEAP: RuntimeHeap = RuntimeHeap {
    name: "PHP's heap",
    how: "chunks at multiples of 2 MiB in a ring that closes, and what adjoins them",
    tool: "memory_get_usage(), php-memory-profiler; or start with USE_ZEND_ALLOC=0",
    is_here: |sight| sight.executable.starts_with("php") || sight.has_file("libphp"),
    owns,
};

/// The empty chunks that PHP keeps.
pub const KEPT: RuntimeHeap = RuntimeHeap {
    name: "PHP's kept chunks",
    how: "chunks of 2 MiB in a list as long as PHP's heap counts",
    tool: "",
    is_here: HEAP.is_here,
    owns: keeps,
};

/// Chunks begin at multiples of this.
const CHUNK: u64 = 2 << 20;
/// The pages of a chunk.
const PAGES: u64 = 512;

/// The number of words from a heap's start that are searched for its pointer to the first chunk.
const HEAP_WORDS: u64 = 128;
/// The most chunks of a list: 128 GiB.
const MOST_KEPT: u64 = 1 << 16;

/// Whether a mapping has a chunk. A block larger than a chunk has its own mapping; the kernel merges adjacent ones.
fn owns(sight: &Sight, mapping: &Mapping) -> bool {
    places(sight, mapping).any(|at| is_chunk(sight, at))
}

/// Where chunks can begin in a mapping.
fn places<'a>(sight: &'a Sight, mapping: &Mapping) -> impl Iterator<Item = u64> + use<'a> {
    let runs = sight.memory.pages().within(mapping.from, mapping.to).filter(|run| run.state.is_resident());
    runs.flat_map(|run| (run.from.next_multiple_of(CHUNK)..run.to).step_by(CHUNK as usize))
}

/// Whether most chunks of a mapping are kept ones. The kernel merges adjacent chunks into one mapping.
fn keeps(sight: &Sight, mapping: &Mapping) -> bool {
    // In a kept chunk, the pointers to the heap and to the previous chunk are null.
    let may_be = |at: u64| [0, 16].iter().all(|part| sight.memory.word(at + part) == Some(0));
    let places: Vec<u64> = places(sight, mapping).collect();
    if !places.iter().any(|at| may_be(*at)) {
        return false;
    }
    let kept = kept(sight);
    places.iter().filter(|at| kept.contains(at)).count() * 2 > places.len()
}

/// The chunks that the heap keeps. The heap is in its first chunk. In the heap, the list of kept chunks follows the
/// pointer to the first chunk. Then come three counts of chunks: in use, the most in use, and kept.
fn kept(sight: &Sight) -> BTreeSet<u64> {
    let word = |at: u64| sight.memory.word(at).unwrap_or_default();
    let private = sight.memory.mappings().iter().filter(|one| one.inode == 0 && one.writable && !one.shared);
    let mut chunks = private.flat_map(|mapping| places(sight, mapping)).filter(|at| is_chunk(sight, *at));
    let Some(first) = chunks.find(|at| word(*at).wrapping_sub(*at) < CHUNK) else { return BTreeSet::new() };
    let heap = word(first);
    let list = (0..HEAP_WORDS).map(|part| heap + part * 8).filter(|at| word(*at) == first);
    list.filter_map(|at| {
        let count = word(at + 24) & u64::from(u32::MAX);
        let mut kept = BTreeSet::new();
        let mut next = word(at + 8);
        while next != 0 {
            if !next.is_multiple_of(CHUNK) || kept.len() as u64 == count.min(MOST_KEPT) || !kept.insert(next) {
                return None;
            }
            next = word(next.checked_add(8)?);
        }
        (kept.len() as u64 == count).then_some(kept)
    })
    .next()
    .unwrap_or_default()
}

fn is_chunk(sight: &Sight, at: u64) -> bool {
    let word = |at: u64| sight.memory.word(at).unwrap_or_default();
    let (heap, next, previous, free) = (word(at), word(at + 8), word(at + 16), word(at + 24));
    let end = sight.memory.machine().processor.address_end();
    let in_ring = |chunk: u64| chunk != 0 && chunk.is_multiple_of(CHUNK) && chunk < end;
    let (free, tail) = (free & u64::from(u32::MAX), free >> 32);
    heap != 0
        && free < PAGES
        && tail <= PAGES
        && in_ring(next)
        && in_ring(previous)
        && word(next + 16) == at
        && word(previous + 8) == at
}
