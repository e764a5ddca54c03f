//! Walks mimalloc's heap. Two checks show that the layout is right: the entries of the page map fit their pages, and each page's lists of
//! free blocks agree with its counts.

mod arena;
mod blocks;
#[cfg(test)]
mod busy_tests;
mod by_copy;
mod fill;
mod map;
mod older;
mod owners;
mod page;
mod release;
mod segments;
#[cfg(test)]
mod segments_tests;
#[cfg(test)]
mod tests;

use arena::MiArena;
use fill::PageTotals;
use map::{MapPages, PageMap};
use owners::Owned;

use crate::known::AllocatorMark;
use crate::walk::empty;
use crate::{CountCheck, Forecast, Memory, Unknown, Walk, Walker};

/// Its name in reports.
const NAME: &str = "mimalloc";

/// `live` counts usable sizes, which are whole blocks.
pub const WALKER: Walker = Walker {
    name: NAME,
    about: "2.0.6 to 2.3, 3.0 to 3.4 and 3.6, with symbols or stripped",
    walk: |memory| walk(memory).into_iter().collect(),
    by_copy: Some(|memory| by_copy::walk(memory).into_iter().collect()),
};

/// How it is recognised if it was not walked.
pub(super) const KNOWN: AllocatorMark =
    AllocatorMark { name: NAME, libraries: &["libmimalloc"], text: Some(b" :rorre :collamim"), is_below_others: false };

fn walk(memory: &dyn Memory) -> Option<Result<Walk, Unknown>> {
    let maps = map::find(memory);
    if maps.is_empty() {
        return match segments::find(memory) {
            Some(heap) => Some(Ok(take_segments(memory, &heap))),
            None => super::named::unknown(memory, WALKER.name, NAME, &known()),
        };
    }
    Some(take_apart(memory, &maps).map_err(|reason| Unknown { allocator: WALKER.name, reason }))
}

/// The releases that can be read, as text for messages.
fn known() -> String {
    format!("{}, {}", older::KNOWN, release::KNOWN)
}

/// Walks the heap of mimalloc 2.
fn take_segments(memory: &dyn Memory, heap: &segments::Segments) -> Walk {
    let mut walk = empty(memory, WALKER.name, heap.release.name);
    let free = fill::fill_segments(memory, heap, &mut walk);
    finish_segments(memory, heap, free, &mut walk);
    walk
}

/// Adds the check and the forecast of mimalloc 2.
fn finish_segments(memory: &dyn Memory, heap: &segments::Segments, free: u64, walk: &mut Walk) {
    let (wanted, found) = heap.owned(memory);
    walk.checks.push(CountCheck { what: "pages that threads own".into(), wanted, found, tolerance: wanted / 50 });
    walk.forecasts.push(Forecast { remedy: "mi_collect(true)", bytes: free, at_most: true });
}

fn take_apart(memory: &dyn Memory, maps: &[Vec<PageMap>]) -> Result<Walk, String> {
    let mut walk = empty(memory, WALKER.name, "");
    let (mut all, mut totals) = (Vec::new(), PageTotals::default());
    for map in maps {
        let apart = choose(memory, map)?;
        walk.version = apart.map.release.name.into();
        walk.breaks += apart.unsure;
        totals += fill::fill(memory, apart.map, &apart.pages, &apart.arenas, &mut walk);
        all.push(apart);
    }
    finish(memory, &all.iter().collect::<Vec<_>>(), totals, &mut walk);
    Ok(walk)
}

/// Adds the checks and the forecast of mimalloc 3.
fn finish(memory: &dyn Memory, all: &[&Apart], totals: PageTotals, walk: &mut Walk) {
    let PageTotals { pages_wanted: wanted, pages_found: found, free } = totals;
    walk.checks.push(CountCheck { what: "pages of the main heap".into(), wanted, found, tolerance: wanted / 50 });
    // Pages with memory from the kernel are in no arena's count, so the threads' counts are checked too.
    let mut owned = Owned::default();
    all.iter().for_each(|apart| owned += owners::count(memory, &apart.pages.pages, apart.map.release));
    let Owned { wanted, found } = owned;
    walk.checks.push(CountCheck { what: "pages that threads own".into(), wanted, found, tolerance: wanted / 50 });
    // How much is given back depends on the threads that own the pages, so this is an upper bound.
    walk.forecasts.push(Forecast { remedy: "mi_collect(true)", bytes: free, at_most: true });
}

/// What was read with one map and its release.
struct Apart<'a> {
    map: &'a PageMap,
    pages: MapPages,
    arenas: Vec<MiArena>,
    unsure: u64,
}

/// Reads a map with the release that causes the fewest contradictions between pages, arenas and threads. Several releases have the same
/// page layout, and even an arena can be readable with another release's layout.
fn choose<'a>(memory: &dyn Memory, maps: &'a [PageMap]) -> Result<Apart<'a>, String> {
    let (mut error, mut best) = (String::new(), None);
    for map in maps {
        match apart(memory, map) {
            Ok(apart) => {
                let doubt = apart.doubt(memory);
                if best.as_ref().is_none_or(|(least, _)| doubt < *least) {
                    best = Some((doubt, apart));
                }
            }
            Err(reason) => error = reason,
        }
    }
    match best {
        Some((_, apart)) => Ok(apart),
        None => Err(format!("layout unknown: wanted that of the releases {}; {error}", known())),
    }
}

impl Apart<'_> {
    /// The number of pages and arenas that contradict the release.
    fn doubt(&self, memory: &dyn Memory) -> u64 {
        let Owned { wanted, found } = owners::count(memory, &self.pages.pages, self.map.release);
        let in_none = |page: &&page::MiPage| match page.origin {
            page::Origin::Arena { arena, slice, .. } => {
                !self.arenas.iter().any(|one| one.at == arena && one.has_page(slice.into()))
            }
            _ => false,
        };
        let lost = self.pages.pages.iter().filter(in_none).count() as u64;
        wanted.abs_diff(found).saturating_add(lost).saturating_add(self.unsure)
    }
}

fn apart<'a>(memory: &dyn Memory, map: &'a PageMap) -> Result<Apart<'a>, String> {
    let pages = map.pages(memory);
    if pages.breaks > pages.pages.len() as u64 {
        return Err(format!("{} pages can be read, {} cannot", pages.pages.len(), pages.breaks));
    }
    let (arenas, unsure) = arena::all(memory, &pages.pages, map.release);
    if arenas.is_empty() && pages.pages.iter().any(|page| page.arena().is_some()) {
        return Err("none of its arenas can be read".into());
    }
    Ok(Apart { map, pages, arenas, unsure })
}
