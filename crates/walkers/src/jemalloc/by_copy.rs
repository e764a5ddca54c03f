//! Walks a short copy of jemalloc's structures, for a heap that changes too fast for a walk.
//!
//! A walk needs only jemalloc's own blocks, the threads' caches, and the blocks with the caches' stacks. A first walk of the changing heap
//! finds where these are, even if it finds errors in them.

use std::ops::Range;

use super::rtree::{self, Tree};
use super::{Caches, best_fit, metadata, take_apart};
use crate::copies::{Steadiest, changed, copies};
use crate::{CopyMoment, Memory, MemoryCopy, Unknown, Walk};

/// The count of active bytes may be wrong by 1 / `PART` in a copy: extents are made and given up during the copying.
const PART: u64 = 33;

/// The walk of the best copy. `None` if there is no jemalloc, or its structures could not be copied.
pub fn walk(memory: &dyn Memory) -> Option<Result<Walk, Unknown>> {
    let trees = rtree::find(memory);
    let copies = copies(memory, trees.iter().flat_map(|tree| structures(memory, tree)))?;
    let read = |copy: &MemoryCopy| take_apart(copy, &trees, PART).ok();
    let Steadiest { read: (mut walk, _), moment, .. } =
        copies.steadiest(read, |one, next| changed(&one.1, &next.1), |one| one.0.live)?;
    let active = walk.checks.iter().filter(|check| check.what == super::ACTIVE);
    let apart: u64 = active.map(|check| check.wanted.abs_diff(check.found)).sum();
    let within = [apart, walk.skipped, walk.moved].into_iter().fold(moment.within, u64::saturating_add);
    walk.copied = Some(CopyMoment { within, ..moment });
    Some(Ok(walk))
}

/// The ranges of a tree's structures: its root, jemalloc's own blocks, and the caches.
fn structures(memory: &dyn Memory, tree: &Tree) -> Vec<Range<u64>> {
    let Ok((release, extents)) = best_fit(memory, tree) else { return Vec::new() };
    let caches = Caches::read(memory, &extents, release);
    let mut all = metadata::blocks(memory, tree, &extents.structures);
    all.push(tree.root());
    all.extend(caches.places);
    all
}
