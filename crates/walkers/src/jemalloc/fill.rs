//! Puts the extents and their blocks on the pages of a walk.

use std::collections::BTreeMap;
use std::ops::Range;

use super::caches::Caches;
use super::extent::{Extent, ExtentUse};
use super::extents::Extents;
use super::metadata;
use crate::{BlockKind, HeapArena, Memory, PageState, Walk};
use crate::{bits::each_run, sums::Sums};

/// Totals of the extents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtentTotals {
    /// Bytes of active extents, only of arenas whose structure was found.
    pub active: u64,
    /// Resident bytes of dirty and muzzy extents, which a purge gives back.
    pub free: u64,
    /// The live bytes of each extent, by its address.
    pub live: Vec<(u64, u64)>,
}

/// Puts all extents, blocks and structures on the pages of `walk`. `name` is the name of this jemalloc in reports.
pub fn fill(
    memory: &dyn Memory,
    extents: &Extents,
    caches: &Caches,
    blocks: &[Range<u64>],
    arenas: &[metadata::JemallocArena],
    name: &str,
    walk: &mut Walk,
) -> ExtentTotals {
    let index = name_arenas(extents, arenas, name, walk);
    let structures = walk.arenas.len() as u32;
    walk.arenas.push(HeapArena { name: format!("{name}: structures"), ..HeapArena::default() });
    walk.breaks += extents.breaks + caches.odd;
    walk.skipped += extents.skipped;
    walk.moved += caches.moved;
    regions(memory, extents, &index, walk);
    for block in blocks {
        walk.layout.region(memory.pages(), block.start, block.end, structures);
        walk.swapped += swapped(memory, block.start, block.end);
    }
    for block in blocks {
        walk.layout.block(block.start, block.end - block.start, BlockKind::Structure);
    }
    let mut totals = ExtentTotals::default();
    for (extent, bitmap) in &extents.all {
        match extent.state() {
            ExtentUse::Active => {
                if arenas.iter().any(|arena| arena.number == extent.arena()) {
                    totals.active += extent.bytes;
                }
                let before = walk.live;
                match *bitmap {
                    Some(place) => slab(extent, extents.bitmap(extent, place), caches, walk),
                    None => large(extent, extents.usable(extent), caches, walk),
                }
                totals.live.push((extent.from(), walk.live - before));
            }
            ExtentUse::Dirty | ExtentUse::Muzzy => totals.free += memory.pages().resident(extent.from(), extent.to()),
            ExtentUse::Retained => {
                for run in memory.pages().within(extent.from(), extent.to()) {
                    walk.layout.block(run.from, run.to - run.from, BlockKind::Unused);
                }
            }
            ExtentUse::Moving => walk.layout.block(extent.from(), extent.bytes, BlockKind::Unknown),
        }
    }
    totals
}

/// Names each arena that has extents or a structure. Returns the index in `walk.arenas` for each arena number.
fn name_arenas(
    extents: &Extents,
    arenas: &[metadata::JemallocArena],
    name: &str,
    walk: &mut Walk,
) -> BTreeMap<u32, u32> {
    let mut index: BTreeMap<u32, u32> = extents.all.iter().map(|(extent, _)| (extent.arena(), 0)).collect();
    index.extend(arenas.iter().map(|arena| (arena.number, 0)));
    for (number, place) in &mut index {
        let arena = arenas.iter().find(|arena| arena.number == *number);
        *place = walk.arenas.len() as u32;
        walk.arenas.push(HeapArena {
            name: format!("{name} {number}"),
            at: arena.and_then(|arena| arena.at).unwrap_or_default(),
            threads: arena.and_then(|arena| arena.threads),
        });
    }
    index
}

/// Adds the regions. Adjacent extents of one arena become one region. Only resident pages of retained extents are added.
fn regions(memory: &dyn Memory, extents: &Extents, index: &BTreeMap<u32, u32>, walk: &mut Walk) {
    let mut last: Option<(u64, u64, u32)> = None;
    let mut push = |from: u64, to: u64, arena: u32| {
        last = match last {
            Some((first, end, owner)) if end == from && owner == arena => Some((first, to, arena)),
            Some((first, end, owner)) => {
                walk.layout.region(memory.pages(), first, end, owner);
                Some((from, to, arena))
            }
            None => Some((from, to, arena)),
        };
    };
    for (extent, _) in &extents.all {
        let arena = index[&extent.arena()];
        if extent.state() != ExtentUse::Retained {
            push(extent.from(), extent.to(), arena);
            continue;
        }
        for run in memory.pages().within(extent.from(), extent.to()) {
            push(run.from, run.to, arena);
        }
    }
    if let Some((from, to, arena)) = last {
        walk.layout.region(memory.pages(), from, to, arena);
    }
    for (extent, _) in &extents.all {
        walk.swapped += swapped(memory, extent.from(), extent.to());
    }
}

fn swapped(memory: &dyn Memory, from: u64, to: u64) -> u64 {
    memory.pages().within(from, to).filter(|run| run.state == PageState::Swapped).map(|run| run.to - run.from).sum()
}

/// Adds the blocks of a slab: the regions whose bit is not set.
fn slab(extent: &Extent, free: &[u64], caches: &Caches, walk: &mut Walk) {
    let size = extent.block();
    let taken = (0..).zip(free).map(|(at, free)| {
        let left = extent.regions().saturating_sub(64 * at).min(64);
        !free & ((1_u128 << left) - 1) as u64
    });
    let mut taken: Vec<u64> = taken.collect();
    let first = caches.blocks.partition_point(|at| *at < extent.at);
    for at in caches.blocks[first..].iter().take_while(|at| **at < extent.to()) {
        let region = (at - extent.at) / size;
        let (word, bit) = ((region / 64) as usize, 1 << (region % 64));
        if taken.get(word).is_some_and(|bits| bits & bit != 0) {
            taken[word] &= !bit;
            walk.cached += size;
            walk.layout.block(*at, size, BlockKind::Cached);
        }
    }
    let first = caches.own.partition_point(|at| *at < extent.at);
    for at in caches.own[first..].iter().take_while(|at| **at < extent.to()) {
        let region = (at - extent.at) / size;
        if let Some(bits) = taken.get_mut((region / 64) as usize) {
            *bits &= !(1 << (region % 64));
            walk.layout.block(*at, size, BlockKind::Structure);
        }
    }
    let count: u64 = taken.iter().map(|bits| u64::from(bits.count_ones())).sum();
    walk.live += count * size;
    walk.blocks += count;
    let mut sums = Sums::new(&mut walk.layout, BlockKind::Live);
    each_run(&taken, |from, count| sums.add(extent.at + from * size, count * size));
    drop(sums);
    each_run(&taken, |from, count| walk.layout.list(extent.at + from * size, size, count));
}

fn large(extent: &Extent, size: u64, caches: &Caches, walk: &mut Walk) {
    if caches.blocks.binary_search(&extent.at).is_ok() {
        walk.cached += size;
        walk.layout.block(extent.at, size, BlockKind::Cached);
    } else if caches.own.binary_search(&extent.at).is_ok() {
        walk.layout.block(extent.at, size, BlockKind::Structure);
    } else {
        walk.live += size;
        walk.blocks += 1;
        walk.layout.block(extent.at, size, BlockKind::Live);
        walk.layout.list(extent.at, size, 1);
    }
}
