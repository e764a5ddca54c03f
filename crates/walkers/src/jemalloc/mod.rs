//! Walks jemalloc's heap. Three checks show that the layout is right: the tree's entries fit their extents, the extents do not overlap, and
//! each slab's bitmap agrees with its count.

mod by_copy;
mod caches;
pub(crate) mod counters;
mod extent;
mod extents;
mod fill;
mod metadata;
mod release;
mod rtree;
#[cfg(test)]
mod tests;

use caches::Caches;
use extents::Extents;
use release::JemallocRelease;
use rtree::Tree;

use crate::known::AllocatorMark;
use crate::walk::empty;
use crate::{CountCheck, Forecast, Memory, Unknown, Walk, Walker};

/// Its name in reports.
const NAME: &str = "jemalloc";

/// `live` counts usable sizes. `live`, `cached` and the stacks of thread caches together are what jemalloc's `stats.allocated` counts.
pub const WALKER: Walker = Walker {
    name: NAME,
    about: "5.2.1, 5.3.0 and 5.3.1, with symbols or stripped",
    walk: |memory| walk(memory).into_iter().collect(),
    by_copy: Some(|memory| by_copy::walk(memory).into_iter().collect()),
};

/// The name of the check against the arenas' own counts.
const ACTIVE: &str = "bytes of active extents";

/// How it is recognised if it was not walked.
pub(super) const KNOWN: AllocatorMark =
    AllocatorMark { name: NAME, libraries: &["libjemalloc"], text: Some(b">collamej<"), is_below_others: false };

fn walk(memory: &dyn Memory) -> Option<Result<Walk, Unknown>> {
    let trees = rtree::find(memory);
    if trees.is_empty() {
        return super::named::unknown(memory, WALKER.name, NAME, release::KNOWN);
    }
    // The counts may differ by 1 / 100: a busy process makes and frees extents in the milliseconds between the two readings.
    Some(
        take_apart(memory, &trees, 100)
            .map(|(walk, _)| walk)
            .map_err(|reason| Unknown { allocator: WALKER.name, reason }),
    )
}

/// Walks the heaps of all trees. The active bytes may differ by 1 / `part` from the arenas' counts. Also returns the live bytes of each
/// extent.
fn take_apart(memory: &dyn Memory, trees: &[Tree], part: u64) -> Result<(Walk, Vec<(u64, u64)>), String> {
    let mut walk = empty(memory, WALKER.name, "");
    let (mut purge, mut live) = (0, Vec::new());
    for tree in trees {
        let (release, extents) = choose(memory, tree)?;
        if walk.version.is_empty() {
            walk.version = format!("{}, for addresses of {} bits", release.name, tree.shape.address_bits);
        }
        let caches = Caches::read(memory, &extents, release);
        let blocks = metadata::blocks(memory, tree, &extents.structures);
        let arenas = metadata::arenas(memory, tree, &blocks, release);
        // Several jemallocs are named by the files that they are in.
        let file =
            memory.mapping(tree.globals.start).map(|mapping| mapping.name.rsplit('/').next().unwrap_or_default());
        let name = match file {
            Some(file) if trees.len() > 1 => format!("{NAME} of {file}"),
            _ => NAME.into(),
        };
        let totals = fill::fill(memory, &extents, &caches, &blocks, &arenas, &name, &mut walk);
        purge += totals.free;
        live.extend(totals.live);
        if !arenas.is_empty() {
            let wanted = arenas.iter().map(|arena| arena.active).sum();
            let (found, tolerance) = (totals.active, wanted / part);
            walk.checks.push(CountCheck { what: ACTIVE.into(), wanted, found, tolerance });
        }
    }
    // If a thread's variables cannot be read, the blocks in its cache count as live.
    let (all, known) = (memory.threads(), memory.threads().iter().filter(|thread| thread.pointer.is_some()));
    let (wanted, found) = (all.len() as u64, known.count() as u64);
    walk.checks.push(CountCheck { what: "threads whose cache can be read".into(), wanted, found, tolerance: wanted });
    walk.forecasts.push(Forecast { remedy: "arena.4096.purge", bytes: purge, at_most: false });
    live.sort_unstable();
    Ok((walk, live))
}

/// Reads the extents with the release that fits best. The error says why none fits.
fn choose(memory: &dyn Memory, tree: &Tree) -> Result<(&'static JemallocRelease, Extents), String> {
    let (release, extents) = best_fit(memory, tree)?;
    readable(&extents)?;
    Ok((release, extents))
}

/// Reads the extents with the release that fits best. A release is accepted at once if at most 10 % of the extents are bad and none
/// contradicts its class: in a busy process some extents change meanwhile.
fn best_fit(memory: &dyn Memory, tree: &Tree) -> Result<(&'static JemallocRelease, Extents), String> {
    let mut best: Option<(u64, &JemallocRelease, Extents)> = None;
    for release in release::ALL.iter().filter(|release| release.page == tree.shape.page) {
        let extents = Extents::read(memory, tree, release)
            .ok_or_else(|| unknown("found a tree whose leaves lie in one another".into()))?;
        let bad = extents.misfits + extents.disagree + extents.breaks;
        if extents.misfits == 0 && bad * 10 <= extents.all.len() as u64 {
            best = Some((bad, release, extents));
            break;
        }
        if best.as_ref().is_none_or(|(least, ..)| bad < *least) {
            best = Some((bad, release, extents));
        }
    }
    let (_, release, extents) = best.expect("there is a release");
    Ok((release, extents))
}

fn unknown(found: String) -> String {
    format!("layout unknown: wanted that of the releases {}; {found}", release::KNOWN)
}

/// Returns an error if too many extents contradict the layout with which they were read.
fn readable(extents: &Extents) -> Result<(), String> {
    let count = extents.all.len() as u64;
    if extents.disagree * 10 > count {
        let wrong = extents.disagree;
        return Err(unknown(format!("of {count} extents, {wrong} are not what their entry in the tree says")));
    }
    if extents.misfits * 10 > count {
        let wrong = extents.misfits;
        return Err(unknown(format!("of {count} extents, {wrong} are not as long as their size class wants")));
    }
    if extents.breaks > 2 * count || extents.guessed * 10 > count * 9 {
        return Err(unknown(format!("of {count} extents, {} can be read", count - extents.guessed.min(count))));
    }
    if extents.all.iter().any(|(extent, _)| extent.of_huge_pages()) {
        return Err(
            "its allocator of huge pages is on (hpa:true), and keeps free pages that the tree does not have".into()
        );
    }
    Ok(())
}
