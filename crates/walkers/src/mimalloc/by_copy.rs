//! Walks a short copy of mimalloc's structures, for a heap that changes too fast for a walk. The result has the live bytes and the free
//! pages, but not the places of free blocks in a page.
//!
//! A page counts its used blocks, and copying all page structures takes less than 1 ms. The lists of free blocks lie in the blocks. Reading
//! them would take a second, and they would no longer agree with the counts.
//!
//! Blocks that other threads have freed are in no count. Their lists are followed after the copy, and the live bytes may be wrong by the
//! size of these blocks.

use std::ops::Range;

use super::map::{self, PageMap};
use super::page::{MiPage, SLICE};
use super::segments::{self, Segments};
use super::{Apart, NAME, apart, choose, fill, finish, finish_segments};
use crate::copies::{Steadiest, changed, copies, sum};
use crate::walk::empty;
use crate::{CopyMoment, Memory, MemoryCopy, Unknown, Walk};

/// The walk of the best copy. `None` if there are no structures, or they could not be copied.
pub fn walk(memory: &dyn Memory) -> Option<Result<Walk, Unknown>> {
    let maps = map::find(memory);
    let walk = match maps.as_slice() {
        [] => of_segments(memory, &segments::find(memory)?)?,
        // A process with a second mimalloc, which is in another library, is not analysed by copy.
        [map] => of_map(memory, map)?,
        _ => return None,
    };
    Some(Ok(walk))
}

/// Walks the heap of mimalloc 3.
fn of_map(memory: &dyn Memory, maps: &[PageMap]) -> Option<Walk> {
    let found = choose(memory, maps).ok()?;
    let copies = copies(memory, structures(&found))?;
    let read = |copy: &MemoryCopy| apart(copy, found.map).ok().map(|apart| (used(&apart.pages.pages), apart));
    let Steadiest { at, read: (_, apart), moment } =
        copies.steadiest(read, |one, next| changed(&one.0, &next.0), |one| sum(&one.0))?;
    let mut walk = empty(memory, NAME, apart.map.release.name);
    walk.breaks += apart.unsure;
    let mut others = OthersBlocks { memory, bytes: 0 };
    let put = |page: &MiPage, walk: &mut Walk| others.put(page, 0, walk);
    let totals = fill::fill_with(copies.get(at), apart.map, &apart.pages, &apart.arenas, &mut walk, put);
    finish(copies.get(at), &[&apart], totals, &mut walk);
    Some(others.told(walk, moment))
}

/// The ranges of a map's structures: its tables, the arenas' own slices, the pages, and the counts of the pages' owners.
fn structures(found: &Apart) -> Vec<Range<u64>> {
    let release = found.map.release;
    let from = |at: u64, bytes: u64| at..at.saturating_add(bytes);
    let tables = found.pages.tables.iter().map(|table| from(*table, SLICE));
    let mut all: Vec<Range<u64>> = std::iter::once(found.map.root..found.map.end).chain(tables).collect();
    all.extend(found.arenas.iter().map(|arena| from(arena.base, arena.own * SLICE)));
    for page in &found.pages.pages {
        all.push(from(page.at, release.page.bytes as u64));
        all.push(from(page.owner.saturating_add(release.owner.page_count), 8));
    }
    all
}

/// Walks the heap of mimalloc 2.
fn of_segments(memory: &dyn Memory, heap: &Segments) -> Option<Walk> {
    let copies = copies(memory, heap.structures(memory))?;
    let read = |copy: &MemoryCopy| {
        let heap = heap.copied(copy);
        Some((used(heap.pages()), heap))
    };
    let Steadiest { at, read: (_, heap), moment } =
        copies.steadiest(read, |one, next| changed(&one.0, &next.0), |one| sum(&one.0))?;
    let mut walk = empty(memory, NAME, heap.release.name);
    let mut others = OthersBlocks { memory, bytes: 0 };
    let (delayed, breaks) = heap.delayed(memory);
    walk.breaks += breaks;
    let free = fill::fill_segments_with(copies.get(at), &heap, &mut walk, |page, walk| {
        let delayed = delayed.range(page.start..page.end()).count();
        others.put(page, delayed as u64, walk)
    });
    finish_segments(copies.get(at), &heap, free, &mut walk);
    Some(others.told(walk, moment))
}

/// Counts the blocks that other threads have freed.
struct OthersBlocks<'a> {
    /// The memory itself, not the copy.
    memory: &'a dyn Memory,
    /// The bytes of these blocks.
    bytes: u64,
}

impl OthersBlocks<'_> {
    /// Puts the live bytes of a page on the memory's pages. `delayed` of its blocks are in a list of its owner's heap, and are not live.
    /// Returns whether the page has no used block.
    fn put(&mut self, page: &MiPage, delayed: u64, walk: &mut Walk) -> bool {
        let used = u64::from(page.used);
        if used == 0 {
            return true;
        }
        let others = (delayed + self.listed(page, used)).min(used);
        self.bytes += others * page.block;
        walk.cached += others * page.block;
        walk.blocks += used - others;
        let live = (used - others) * page.block;
        walk.live += live;
        walk.layout.spread(self.memory.pages(), page.start..page.end(), live);
        false
    }

    /// Adds to the walk when its copy was made, and by how much it may be wrong.
    fn told(&self, walk: Walk, moment: CopyMoment) -> Walk {
        let within = moment.within.saturating_add(self.bytes).saturating_add(walk.skipped);
        Walk { copied: Some(CopyMoment { within, ..moment }), ..walk }
    }

    /// The length of the page's list of blocks that other threads have freed, at most `most`.
    fn listed(&self, page: &MiPage, most: u64) -> u64 {
        let next = |at: &u64| self.memory.word(*at);
        let all = std::iter::successors(Some(page.freed_by_others), next);
        all.take(most as usize).take_while(|at| page.index(*at).is_some()).count() as u64
    }
}

/// The used bytes of each page. The key is its first block and its block size, so a page structure that was reused for another page has
/// another key.
fn used<'a>(pages: impl IntoIterator<Item = &'a MiPage>) -> Vec<((u64, u64), u64)> {
    let page = |page: &MiPage| ((page.start, page.block), u64::from(page.used) * page.block);
    let mut all: Vec<_> = pages.into_iter().map(page).collect();
    all.sort_unstable();
    all
}
