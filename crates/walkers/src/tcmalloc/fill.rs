//! Puts the spans and their blocks on the pages of a walk.

use std::collections::BTreeSet;

use super::blocks::SpanBlocks;
use super::map::{SpanMap, Spans};
use super::span::SpanUse;
use crate::{BlockKind, Memory, PageState, Walk};
use crate::{bits::each_run, sums::Sums};

/// Structures at most this many bytes apart count as one piece of memory. The unused structures between them are included.
const NEAR: u64 = 64 << 10;

/// Totals over the spans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpanTotals {
    /// The bytes of all spans.
    pub all: u64,
    /// The bytes of free spans that were not given back.
    pub free: u64,
    /// Of them, what is resident in whole pages of the kernel: tcmalloc's can be smaller.
    pub free_resident: u64,
    /// The bytes of free spans that were given back.
    pub returned: u64,
    /// The number of blocks in the lists of spans.
    pub in_spans: u64,
}

/// Puts all spans, blocks and structures on the pages of `walk`.
pub fn fill(
    memory: &dyn Memory,
    map: &SpanMap,
    found: &Spans,
    blocks: &SpanBlocks,
    caches: &BTreeSet<u64>,
    walk: &mut Walk,
) -> SpanTotals {
    walk.breaks += found.breaks + blocks.breaks;
    walk.skipped += blocks.skipped;
    let spans = name(walk, "tcmalloc, spans");
    let mut last: Option<(u64, u64)> = None;
    for span in found.spans.iter().chain(std::iter::once(&END)) {
        last = match last {
            Some((from, to)) if to == span.from => Some((from, span.to)),
            Some((from, to)) => {
                region(memory, from, to, spans, walk);
                Some((span.from, span.to))
            }
            None => Some((span.from, span.to)),
        };
    }
    structures(memory, map, found, caches, walk);
    let (mut totals, machine) = (SpanTotals::default(), memory.machine());
    for (number, span) in found.spans.iter().enumerate() {
        let bytes = span.to - span.from;
        totals.all = totals.all.saturating_add(bytes);
        match span.used {
            SpanUse::Taken if blocks.size(span) > 0 => {
                let (free, cached) = blocks.of(number);
                let (size, count) = (blocks.size(span), blocks.count(span));
                totals.in_spans += count_ones(free);
                walk.cached += count_ones(cached) * size;
                let taken = taken(free, cached, count);
                let live = count_ones(&taken);
                walk.live += live * size;
                walk.blocks += live;
                for (bits, kind) in [(taken.as_slice(), BlockKind::Live), (cached, BlockKind::Cached)] {
                    let mut sums = Sums::new(&mut walk.layout, kind);
                    each_run(bits, |from, count| sums.add(span.from + from * size, count * size));
                }
                each_run(&taken, |from, count| walk.layout.list(span.from + from * size, size, count));
            }
            SpanUse::Taken => {
                walk.live = walk.live.saturating_add(bytes);
                walk.blocks += 1;
                walk.layout.block(span.from, bytes, BlockKind::Live);
                walk.layout.list(span.from, bytes, 1);
            }
            SpanUse::Free => {
                totals.free = totals.free.saturating_add(bytes);
                let (from, to) = (span.from.next_multiple_of(machine.page), machine.page_of(span.to));
                totals.free_resident += memory.pages().resident(from, to.max(from));
            }
            SpanUse::Returned => {
                totals.returned = totals.returned.saturating_add(bytes);
                for run in memory.pages().within(span.from, span.to) {
                    walk.layout.block(run.from, run.to - run.from, BlockKind::Unused);
                }
            }
        }
    }
    totals
}

/// A last item for the loop over spans, so that it adds the last region too.
const END: super::span::PageSpan =
    super::span::PageSpan { at: 0, from: u64::MAX, to: u64::MAX, class: 0, taken: 0, objects: 0, used: SpanUse::Taken };

/// Adds the leaves of the map, and the pages with structures of spans and of thread caches.
fn structures(memory: &dyn Memory, map: &SpanMap, found: &Spans, caches: &BTreeSet<u64>, walk: &mut Walk) {
    let own = name(walk, "tcmalloc: structures");
    let leaves = found.leaves.iter().map(|leaf| (*leaf, leaf + map.leaf_bytes()));
    let cache_bytes = (map.release.cache.list * map.release.cache.lists) as u64;
    let small = found.spans.iter().map(|span| (span.at, map.release.span.bytes as u64));
    let small = small.chain(caches.iter().map(|cache| (*cache, cache_bytes)));
    let machine = memory.machine();
    let whole = |(at, bytes): (u64, u64)| (machine.page_of(at), machine.page_of(at + bytes + machine.page - 1));
    let mut pages: Vec<(u64, u64)> = leaves.chain(small.map(whole)).collect();
    pages.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (from, to) in pages {
        match joined.last_mut() {
            Some((_, end)) if from <= end.saturating_add(NEAR) => *end = to.max(*end),
            _ => joined.push((from, to)),
        }
    }
    for (from, to) in joined {
        // Pages that already belong to spans stay with these.
        let ends = memory.mapping(from).map_or(from, |mapping| to.min(mapping.to));
        let before = walk.layout.regions().count();
        region(memory, from, ends, own, walk);
        let new: Vec<(u64, u64)> = match walk.layout.regions().count() == before {
            true => Vec::new(),
            false => walk
                .layout
                .regions()
                .filter(|(at, _, arena)| *arena == own && (from..ends).contains(at))
                .map(|(from, to, _)| (from, to))
                .collect(),
        };
        for (from, to) in new {
            walk.layout.block(from, to - from, BlockKind::Structure);
        }
    }
}

fn taken(free: &[u64], cached: &[u64], count: u64) -> Vec<u64> {
    let mut left = count;
    let word = |(free, cached): (&u64, &u64)| {
        let bits = left.min(64);
        left -= bits;
        !(free | cached) & ((1_u128 << bits) - 1) as u64
    };
    free.iter().zip(cached).map(word).collect()
}

fn count_ones(bits: &[u64]) -> u64 {
    bits.iter().map(|bits| u64::from(bits.count_ones())).sum()
}

fn name(walk: &mut Walk, name: &str) -> u32 {
    walk.arenas.push(crate::HeapArena { name: name.into(), ..crate::HeapArena::default() });
    walk.arenas.len() as u32 - 1
}

fn region(memory: &dyn Memory, from: u64, to: u64, arena: u32, walk: &mut Walk) {
    walk.layout.region(memory.pages(), from, to, arena);
    let swapped = memory.pages().within(from, to).filter(|run| run.state == PageState::Swapped);
    walk.swapped += swapped.map(|run| run.to - run.from).sum::<u64>();
}
