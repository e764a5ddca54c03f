//! Puts mimalloc's pages and their blocks on the memory's pages of a walk.

use std::ops::{AddAssign, Range};

use super::arena::MiArena;
use super::blocks::{self, PageBlocks};
use super::map::{MapPages, PageMap};
use super::page::{MiPage, Origin, SLICE};
use super::release::MimallocRelease;
use super::segments::Segments;
use crate::{BlockKind, Memory, PageState, Walk};
use crate::{bits::each_run, sums::Sums};

/// Totals over mimalloc's pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageTotals {
    /// The pages that the arenas count.
    pub pages_wanted: u64,
    /// The part of `pages_wanted` that the map has too.
    pub pages_found: u64,
    /// Resident bytes of free slices, and of pages without a used block.
    pub free: u64,
}

impl AddAssign for PageTotals {
    fn add_assign(&mut self, other: PageTotals) {
        self.pages_wanted += other.pages_wanted;
        self.pages_found += other.pages_found;
        self.free += other.free;
    }
}

/// Walks the heap of a map, and puts all of it on the pages of `walk`.
pub fn fill(memory: &dyn Memory, map: &PageMap, found: &MapPages, arenas: &[MiArena], walk: &mut Walk) -> PageTotals {
    let mut bytes = Vec::new();
    let now = || used(&found.pages, |page| again(memory, page, map.release));
    let before = now();
    let totals = fill_with(memory, map, found, arenas, walk, |page, walk| {
        // The process runs: the page's counts are read again, because they agree with its lists only if both are read together.
        let page = &again(memory, page, map.release).unwrap_or(*page);
        let blocks = blocks::read(memory, page, &mut bytes);
        put(page, &blocks, walk);
        u64::from(page.used) == blocks::count(&blocks.freed_by_others)
    });
    walk.moved += moved(&before, &now());
    totals
}

/// Puts the heap of a map on the pages of `walk`. `put` does this for the blocks of one page, and returns whether the page has no used
/// block.
pub fn fill_with(
    memory: &dyn Memory,
    map: &PageMap,
    found: &MapPages,
    arenas: &[MiArena],
    walk: &mut Walk,
    mut put: impl FnMut(&MiPage, &mut Walk) -> bool,
) -> PageTotals {
    walk.breaks += found.breaks;
    let mut totals = PageTotals::default();
    for arena in arenas {
        let number = name(walk, format!("mimalloc arena at {:x}", arena.base), arena.base);
        region(memory, arena.base..arena.end(), number, walk);
        slices(memory, arena, &found.pages, &mut totals, walk);
    }
    let outside = name(walk, "mimalloc, large blocks".into(), 0);
    for page in &found.pages {
        if let Origin::Kernel { base, bytes } = page.origin {
            region(memory, around(memory, page, base, bytes), outside, walk);
        }
    }
    let tables = name(walk, "mimalloc's page map".into(), map.root);
    for table in std::iter::once(map.root..map.end).chain(found.tables.iter().map(|table| *table..table + SLICE)) {
        region(memory, table.clone(), tables, walk);
        walk.layout.block(table.start, table.end - table.start, BlockKind::Structure);
    }
    for page in &found.pages {
        if put(page, walk) {
            totals.free += memory.pages().resident(page.start, page.end());
        }
        if page.arena().is_none() || page.at / SLICE == page.start / SLICE {
            walk.layout.block(page.at, map.release.page.bytes as u64, BlockKind::Structure);
        }
    }
    totals
}

/// Walks the heap of mimalloc 2, and puts all of it on the pages of `walk`. Returns the resident bytes of free slices, and of pages without
/// a used block.
pub fn fill_segments(memory: &dyn Memory, heap: &Segments, walk: &mut Walk) -> u64 {
    let now = || used(heap.pages(), |page| heap.again(memory, page));
    let before = now();
    // A freed block can move from its page's list to a heap's list, and back. The heaps' lists are read just before the pages.
    let (delayed, breaks) = heap.delayed(memory);
    walk.breaks += breaks;
    let mut bytes = Vec::new();
    let free = fill_segments_with(memory, heap, walk, |page, walk| {
        let page = &heap.again(memory, page).unwrap_or(*page);
        let mut blocks = blocks::read(memory, page, &mut bytes);
        blocks.also_freed_by_others(page, &delayed);
        put(page, &blocks, walk);
        u64::from(page.used) == blocks::count(&blocks.freed_by_others)
    });
    walk.moved += moved(&before, &now());
    free
}

/// Puts the heap of mimalloc 2 on the pages of `walk`. `put` is as for [`fill_with`].
pub fn fill_segments_with(
    memory: &dyn Memory,
    heap: &Segments,
    walk: &mut Walk,
    mut put: impl FnMut(&MiPage, &mut Walk) -> bool,
) -> u64 {
    let mut free = 0;
    let number = name(walk, "mimalloc, segments".into(), 0);
    walk.breaks += heap.breaks;
    for segment in &heap.segments {
        walk.breaks += segment.breaks;
        walk.skipped += segment.skipped;
        let end = segment.at + segment.slices * SLICE;
        region(memory, segment.at..end, number, walk);
        walk.layout.block(segment.at, segment.own * SLICE, BlockKind::Structure);
        let mut last = segment.at + segment.own * SLICE;
        for page in &segment.pages {
            let Origin::Segment { from, bytes: all } = page.origin else { continue };
            free += memory.pages().resident(last, from);
            last = from + all;
            if put(page, walk) {
                free += memory.pages().resident(from, last);
            }
        }
        free += memory.pages().resident(last, end);
    }
    free
}

/// The present used bytes of each page; 0 for a structure that was reused for another page.
fn used<'a>(pages: impl IntoIterator<Item = &'a MiPage>, again: impl Fn(&MiPage) -> Option<MiPage>) -> Vec<u64> {
    let bytes = |page: MiPage| u64::from(page.used) * page.block;
    pages.into_iter().map(|page| again(page).map_or(0, bytes)).collect()
}

/// By how many bytes the sum over the pages can be wrong if each page was read at some time between these two readings. mimalloc allocates
/// in another page than the one where it has just freed a block. So the block can be counted in both pages, or in neither.
fn moved(before: &[u64], after: &[u64]) -> u64 {
    let pages = before.iter().zip(after);
    let (lost, gained) = pages.fold((0_u64, 0_u64), |(lost, gained), (before, after)| {
        (lost.saturating_add(before.saturating_sub(*after)), gained.saturating_add(after.saturating_sub(*before)))
    });
    lost.max(gained)
}

/// Reads a page's counts again. `None` if its structure was reused for another page.
pub(super) fn again(memory: &dyn Memory, page: &MiPage, release: &MimallocRelease) -> Option<MiPage> {
    let mut bytes = vec![0; release.page.bytes];
    let now = memory.read(page.at, &mut bytes).then(|| MiPage::parse(page.at, &bytes, release)).flatten()?;
    (now.start == page.start && now.block == page.block).then_some(now)
}

fn name(walk: &mut Walk, name: String, at: u64) -> u32 {
    walk.arenas.push(crate::HeapArena { name, at, threads: None });
    walk.arenas.len() as u32 - 1
}

fn region(memory: &dyn Memory, range: Range<u64>, arena: u32, walk: &mut Walk) {
    walk.layout.region(memory.pages(), range.start, range.end, arena);
    let swapped = memory.pages().within(range.start, range.end).filter(|run| run.state == PageState::Swapped);
    walk.swapped += swapped.map(|run| run.to - run.from).sum::<u64>();
}

/// The memory that a page has from the kernel, if its blocks lie there and it is mapped. Otherwise only the range of its blocks.
fn around(memory: &dyn Memory, page: &MiPage, base: u64, bytes: u64) -> Range<u64> {
    let range = base..base.saturating_add(bytes);
    let known = range.contains(&page.start) && page.end() <= range.end;
    let mapped = memory.mapping(base).is_some() && memory.mapping(range.end.saturating_sub(1)).is_some();
    if known && mapped { range } else { page.start..page.end() }
}

/// Adds the slices of an arena that belong to no page: they are free, or hold structures.
fn slices(memory: &dyn Memory, arena: &MiArena, pages: &[MiPage], totals: &mut PageTotals, walk: &mut Walk) {
    let mut taken = vec![false; arena.slices as usize];
    let mut begins = vec![false; arena.slices as usize];
    for page in pages {
        let Origin::Arena { arena: at, slice, slices } = page.origin else { continue };
        if at == arena.at {
            let first = slice as usize;
            begins.iter_mut().skip(first).take(1).for_each(|begins| *begins = true);
            taken.iter_mut().skip(first).take(slices as usize).for_each(|taken| *taken = true);
        }
    }
    for (slice, at) in (0..arena.slices).zip((arena.base..).step_by(SLICE as usize)) {
        if arena.has_page(slice) {
            totals.pages_wanted += 1;
            totals.pages_found += u64::from(begins[slice as usize]);
            if !begins[slice as usize] {
                walk.breaks += 1;
                walk.skipped += SLICE;
            }
        }
        if slice < arena.own {
            walk.layout.block(at, SLICE, BlockKind::Structure);
        } else if arena.is_free(slice) {
            totals.free += memory.pages().resident(at, at + SLICE);
        } else if !taken[slice as usize] {
            walk.layout.block(at, SLICE, BlockKind::Structure);
        }
    }
}

fn put(page: &MiPage, blocks: &PageBlocks, walk: &mut Walk) {
    let others = blocks::count(&blocks.freed_by_others).min(u64::from(page.used));
    let live = u64::from(page.used) - others;
    walk.live += live * page.block;
    walk.blocks += live;
    walk.cached += others * page.block;
    if blocks.wrong > 0 {
        walk.breaks += 1;
        walk.skipped += blocks.wrong * page.block;
    }
    let mut left = u64::from(page.capacity);
    let taken: Vec<u64> = blocks
        .free
        .iter()
        .zip(&blocks.freed_by_others)
        .map(|(free, others)| {
            let bits = left.min(64);
            left -= bits;
            !(free | others) & ((1_u128 << bits) - 1) as u64
        })
        .collect();
    for (bits, kind) in [(&taken, BlockKind::Live), (&blocks.freed_by_others, BlockKind::Cached)] {
        let mut sums = Sums::new(&mut walk.layout, kind);
        each_run(bits, |from, count| sums.add(page.start + from * page.block, count * page.block));
    }
    each_run(&taken, |from, count| walk.layout.list(page.start + from * page.block, page.block, count));
}
