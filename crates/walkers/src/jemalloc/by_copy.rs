//! A heap that changes while it is walked, from one short copy of its structures. In: a memory. Out: a walk of the copy.
//!
//! All that a walk needs lies in jemalloc's own blocks, in the threads' caches and in the blocks that have the caches' stacks. A first
//! walk finds them, whatever it finds wrong.

use std::ops::Range;

use super::rtree::{self, Tree};
use super::{Caches, best_fit, metadata, take_apart};
use crate::copies::{Steadiest, changed, copies};
use crate::{CopyMoment, Memory, MemoryCopy, Unknown, Walk};

/// One part in so many of the active bytes may be missing or too much in a copy: extents that were made or given up while it was made.
const PART: u64 = 33;

/// The walk, if there is a jemalloc whose structures can be copied.
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

/// Where the structures of a tree are: its root, jemalloc's own blocks, and the caches.
fn structures(memory: &dyn Memory, tree: &Tree) -> Vec<Range<u64>> {
    let Ok((release, extents)) = best_fit(memory, tree) else { return Vec::new() };
    let caches = Caches::read(memory, &extents, release);
    let mut all = metadata::blocks(memory, tree, &extents.structures);
    all.push(tree.root());
    all.extend(caches.places);
    all
}
