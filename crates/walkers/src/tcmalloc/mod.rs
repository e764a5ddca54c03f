//! Walks the heap of gperftools' tcmalloc. Three checks show that the layout is right: the entries of the page map fit their spans, the
//! spans do not overlap, and their lists of free blocks agree with their counts.

mod blocks;
mod fill;
mod lists;
mod map;
mod release;
mod sizes;
mod span;
#[cfg(test)]
mod tests;

use blocks::SpanBlocks;
use map::SpanMap;

use crate::known::AllocatorMark;
use crate::walk::empty;
use crate::{CountCheck, Forecast, Memory, Unknown, Walk, Walker};

/// Its name in reports.
const NAME: &str = "tcmalloc";

/// `live` counts usable sizes: whole blocks, and whole pages of tcmalloc for large blocks.
pub const WALKER: Walker = Walker {
    name: NAME,
    about: "gperftools 2.8 to 2.18, with symbols or stripped",
    walk: |memory| walk(memory).into_iter().collect(),
    by_copy: None,
};

/// A message of gperftools' and of Google's tcmalloc, reversed. Its first word alone, with the colon, is in programs that write about tcmalloc.
const TEXT: &[u8] = b"deliaf noitacolla :collamct";

/// How it is recognised if it was not walked.
pub(super) const KNOWN: AllocatorMark =
    AllocatorMark { name: NAME, libraries: &["libtcmalloc"], text: Some(TEXT), is_below_others: false };

fn walk(memory: &dyn Memory) -> Option<Result<Walk, Unknown>> {
    let maps = map::find(memory);
    // Another allocator could have such a map, so tcmalloc's size classes must be there too.
    let whole = |map: SpanMap| sizes::find(memory, &map.globals, map.release).map(|sizes| (map, sizes));
    let maps: Vec<(SpanMap, Vec<u64>)> = maps.into_iter().filter_map(whole).collect();
    if maps.is_empty() {
        return super::named::unknown(memory, WALKER.name, "tcmalloc", release::KNOWN);
    }
    Some(take_apart(memory, &maps).map_err(|reason| Unknown { allocator: WALKER.name, reason }))
}

fn take_apart(memory: &dyn Memory, maps: &[(SpanMap, Vec<u64>)]) -> Result<Walk, String> {
    let mut walk = empty(memory, WALKER.name, "");
    let (mut releasable, mut at_most) = (0, false);
    for (map, sizes) in maps {
        walk.version = map.release.name.into();
        let unknown = |found: &str| format!("layout unknown: wanted that of {}; {found}", release::KNOWN);
        let found = map.spans(memory);
        if found.breaks > found.spans.len() as u64 {
            return Err(unknown(&format!("{} spans can be read, {} cannot", found.spans.len(), found.breaks)));
        }
        // Free blocks move from a span to the central lists and on to thread caches. Reading in this order meets a moving block at least
        // once.
        let mut blocks = SpanBlocks::new(&found.spans, sizes);
        blocks.free_of_spans(memory);
        let central = lists::central(memory, &map.globals, sizes, map.release)
            .ok_or_else(|| unknown("its central lists were not found"))?;
        blocks.cached(memory, &central.lists);
        let caches = lists::caches(memory, &map.globals, sizes, map.release);
        if caches.is_empty() {
            return Err(unknown("no thread cache was found"));
        }
        for cache in &caches {
            match lists::of_cache(memory, *cache, sizes, map.release) {
                Some(lists) => blocks.cached(memory, &lists),
                None => blocks.breaks += 1,
            }
        }
        let totals = fill::fill(memory, map, &found, &blocks, &caches, &mut walk);
        releasable += totals.free_resident;
        // With pages of 16 KiB, gperftools 2.10 gave nothing back.
        at_most |= memory.machine().page > 1 << map.release.page_shift;
        let count = |at: u64| memory.word(map.root + map.release.stats + at).unwrap_or(0);
        let (all, free, returned) = (count(0), count(8), count(16));
        walk.checks.extend([
            check("bytes of all spans", all, totals.all, all / 50),
            check("bytes of free spans", free, totals.free, all / 50),
            check("bytes of returned spans", returned, totals.returned, all / 50),
            check("free blocks of spans", central.in_spans, totals.in_spans, central.in_spans / 50),
        ]);
    }
    walk.forecasts.push(Forecast { remedy: "MallocExtension_ReleaseFreeMemory()", bytes: releasable, at_most });
    Ok(walk)
}

fn check(what: &str, wanted: u64, found: u64, tolerance: u64) -> CountCheck {
    CountCheck { what: what.into(), wanted, found, tolerance }
}
