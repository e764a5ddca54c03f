//! Finds jemalloc's own blocks of structures, and its arenas with their counts.
//!
//! jemalloc never frees its structures. They lie in blocks that begin with a `base_block_t` (`base.h`) at a multiple of 2 MiB: the size at
//! byte 0, the next block at 8, and the `edata_t` of the unused rest at 16. The address in this `edata_t` lies in the block.
//!
//! In 5.3 the distances of the fields in an `arena_t` depend on the build. But its part `pa_shard` ends with `emap` and `base`, and behind
//! it come `ind` and the same `base`. `emap` points just before the tree's root. `pa_shard` begins with a pointer to a global variable, the
//! number of pages in active extents (`nactive`), two flags, and pointers to functions.
//!
//! In 5.2 the distances depend on the release only. Entry `i` of a global array is the address of arena `i`. The arena points to a
//! `base_t`, which begins with `i` and a pointer to a global variable.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::release::{JemallocArenaFields, JemallocRelease};
use super::rtree::Tree;
use crate::Memory;
use crate::globals::{each_piece, each_word};

const ALIGNED: u64 = 2 << 20;

/// More than the bytes of an `arena_t` without its bins.
const ARENA: u64 = 1 << 17;

/// An arena, as its structure describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JemallocArena {
    /// Its number.
    pub number: u32,
    /// Its address, if a global variable points to it.
    pub at: Option<u64>,
    /// The address of a constant word of the arena, by which it is recognised later.
    pub mark: u64,
    /// The address of its count of active pages.
    pub pages: u64,
    /// The number of threads that allocate from it.
    pub threads: Option<u64>,
    /// Bytes of active extents.
    pub active: u64,
}

/// The blocks of structures: those with the given addresses, those that global variables point to, and those that follow in their lists.
pub fn blocks(memory: &dyn Memory, tree: &Tree, structures: &[u64]) -> Vec<Range<u64>> {
    let mut starts: BTreeSet<u64> = structures.iter().map(|at| at / ALIGNED * ALIGNED).collect();
    each_word(memory, &tree.globals, |_, word| {
        if memory.mapping(word).is_some_and(|mapping| mapping.is_heap_like()) {
            starts.insert(word / ALIGNED * ALIGNED);
        }
    });
    let mut blocks: BTreeMap<u64, u64> = BTreeMap::new();
    while let Some(start) = starts.pop_first() {
        let inside = blocks.range(..=start).next_back().is_some_and(|(_, end)| start < *end);
        if let Some((block, next)) = block(memory, start, tree.shape.page).filter(|_| !inside) {
            blocks.insert(block.start, block.end);
            // A block can be longer than 2 MiB, and then begin before the multiple where a known structure is.
            starts.insert(next);
        }
    }
    blocks.into_iter().map(|(from, to)| from..to).collect()
}

/// The block that begins at an address, and the address of the next block in the list.
fn block(memory: &dyn Memory, start: u64, page: u64) -> Option<(Range<u64>, u64)> {
    let (size, next, unused) = (memory.word(start)?, memory.word(start + 8)?, memory.word(start + 24)?);
    let end = start.checked_add(size)?;
    let ends_in_memory = memory.mapping(end.checked_sub(1)?).is_some_and(|mapping| mapping.is_heap_like());
    let fits = size >= page && size % page == 0 && next % ALIGNED == 0 && start < unused && unused <= end;
    (fits && ends_in_memory).then_some((start..end, next))
}

pub fn arenas(
    memory: &dyn Memory,
    tree: &Tree,
    blocks: &[Range<u64>],
    release: &JemallocRelease,
) -> Vec<JemallocArena> {
    match release.arena {
        JemallocArenaFields::Shard => by_shard(memory, tree, blocks),
        JemallocArenaFields::Base { active, base } => by_base(memory, tree, blocks, active, base),
    }
}

/// The arenas of the global array (5.2). `active_at` and `base_at` are the distances of two fields in an arena.
fn by_base(
    memory: &dyn Memory,
    tree: &Tree,
    blocks: &[Range<u64>],
    active_at: u64,
    base_at: u64,
) -> Vec<JemallocArena> {
    let mut arrays: BTreeMap<u64, Vec<JemallocArena>> = BTreeMap::new();
    each_word(memory, &tree.globals, |slot, at| {
        let is_structure = |at: u64| at.is_multiple_of(64) && blocks.iter().any(|block| block.contains(&at));
        let read = || {
            let base = memory.word(at.checked_add(base_at)?).filter(|base| is_structure(*base))?;
            let number = memory.word(base)? & 0xffff_ffff;
            // `extent_hooks`
            memory.mapping(memory.word(base + 8)?).filter(|mapping| mapping.inode != 0)?;
            let array = slot.checked_sub(8 * number).filter(|_| number < 4096)?;
            let active = memory.word(at.checked_add(active_at)?)?.checked_mul(tree.shape.page)?;
            let threads = Some(memory.word(at)? & 0xffff_ffff);
            let (mark, pages) = (at.checked_add(base_at)?, at.checked_add(active_at)?);
            Some((array, JemallocArena { number: number as u32, at: Some(at), mark, pages, threads, active }))
        };
        if let Some((array, arena)) = is_structure(at).then(read).flatten() {
            arrays.entry(array).or_default().push(arena);
        }
    });
    // Another variable can point to an arena too, and looks like an array of one. So the longest array is taken.
    arrays.into_values().max_by_key(Vec::len).unwrap_or_default()
}

fn by_shard(memory: &dyn Memory, tree: &Tree, blocks: &[Range<u64>]) -> Vec<JemallocArena> {
    let mut found: Vec<JemallocArena> = Vec::new();
    for block in blocks {
        each_word(memory, block, |at, word| {
            // In `rtree_t`, a pointer and a lock come before the root.
            if word < tree.root && tree.root - word <= 512 {
                found.extend(arena(memory, tree, block, at));
            }
        });
    }
    found.sort_unstable_by_key(|arena| arena.number);
    found.dedup_by_key(|arena| arena.number);
    let mut pointers: Vec<u64> = Vec::new();
    each_word(memory, &tree.globals, |_, word| {
        if word % 64 == 0 && blocks.iter().any(|block| block.contains(&word)) {
            pointers.push(word);
        }
    });
    pointers.sort_unstable();
    for arena in &mut found {
        let shard = arena.at.take();
        let before = shard.and_then(|shard| pointers[..pointers.partition_point(|at| *at < shard)].last().copied());
        arena.at = before.filter(|at| shard.is_some_and(|shard| shard - at < ARENA));
        // `nthreads[0]` is the first field.
        arena.threads = arena.at.and_then(|at| memory.word(at)).map(|word| word & 0xffff_ffff);
    }
    found
}

/// The arena whose field `pa_shard.emap` is at an address. Its own address is that of `pa_shard`.
fn arena(memory: &dyn Memory, tree: &Tree, block: &Range<u64>, emap: u64) -> Option<JemallocArena> {
    let base = memory.word(emap + 8).filter(|base| *base != 0)?;
    // `pa_shard` is padded with zeroes to a multiple of its alignment.
    let after: Vec<u64> = (2..12).map_while(|index| memory.word(emap + 8 * index)).collect();
    let (number, filling) = after[..after.iter().position(|word| *word == base)?].split_last()?;
    let number = (*number & 0xffff_ffff) as u32;
    if filling.iter().any(|word| *word != 0) || number > 4095 {
        return None;
    }
    let is_code = |at: u64| memory.mapping(at).is_some_and(|mapping| !mapping.writable && mapping.inode != 0);
    let mut shard = None;
    each_piece(memory, &(emap.saturating_sub(ARENA).max(block.start)..emap), |from, bytes| {
        let word = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        for (at, five) in (from..).step_by(8).zip(bytes.windows(40).step_by(8)) {
            let begins = tree.globals.contains(&word(five, 0)) && word(five, 16) & !0x0101 == 0;
            if begins && is_code(word(five, 24)) && is_code(word(five, 32)) {
                shard = Some((at, word(five, 8)));
            }
        }
    });
    let (at, pages) = shard?;
    Some(JemallocArena {
        number,
        at: Some(at),
        mark: at,
        pages: at.checked_add(8)?,
        threads: None,
        active: pages.checked_mul(tree.shape.page)?,
    })
}
