//! mimalloc's heap: the page map proves itself, and each page's lists of free blocks agree with its counts.

mod arena;
mod blocks;
mod fill;
mod map;
mod page;
mod release;
#[cfg(test)]
mod tests;

use map::Map;

use super::Known;
use crate::{Check, Forecast, Memory, Unknown, Walk, Walker};
use allocanary_allocators::allocators::mimalloc::NAME;

/// The walker. `live` counts usable sizes, which are whole blocks.
pub const WALKER: Walker = Walker { name: NAME, about: "3.3, with symbols or stripped", walk };

/// By what it is known where it was not walked.
pub(super) const KNOWN: Known =
    Known { name: NAME, libraries: &["libmimalloc"], text: Some(b" :rorre :collamim"), is_below_others: false };

fn walk(memory: &dyn Memory) -> Option<Result<Walk, Unknown>> {
    let maps = map::find(memory);
    if maps.is_empty() {
        return super::named::unknown(memory, WALKER.name, NAME, release::KNOWN);
    }
    Some(take_apart(memory, &maps).map_err(|reason| Unknown { allocator: WALKER.name, reason }))
}

fn take_apart(memory: &dyn Memory, maps: &[Map]) -> Result<Walk, String> {
    let mut walk = super::empty(memory, WALKER.name, maps[0].release.name);
    let (mut wanted, mut found, mut collected) = (0, 0, 0);
    for map in maps {
        let pages = map.pages(memory);
        if pages.breaks > pages.pages.len() as u64 {
            return Err(format!(
                "layout unknown: wanted that of the releases {}; {} pages can be read, {} cannot",
                release::KNOWN,
                pages.pages.len(),
                pages.breaks
            ));
        }
        let (arenas, unsure) = arena::all(memory, &pages.pages, map.release);
        if arenas.is_empty() && pages.pages.iter().any(|page| page.arena().is_some()) {
            return Err(format!(
                "layout unknown: wanted that of the releases {}; none of its arenas can be read",
                release::KNOWN
            ));
        }
        walk.breaks += unsure;
        let totals = fill::fill(memory, map, &pages, &arenas, &mut walk);
        wanted += totals.pages_wanted;
        found += totals.pages_found;
        collected += totals.free;
    }
    walk.checks.push(Check { what: "pages of the main heap".into(), wanted, found, tolerance: wanted / 50 });
    // Which pages it gives back depends on the threads that own them.
    walk.forecasts.push(Forecast { remedy: "mi_collect(true)", bytes: collected, at_most: true });
    Ok(walk)
}
