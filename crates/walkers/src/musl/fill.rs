//! Puts the groups and their blocks on the pages of a walk, and compares the head of each block with its group's meta.

use super::batch::{Batch, batches, free_now, has_swapped};
use super::context::Context;
use super::group::MuslGroup;
use super::head;
use super::nest::Nested;
use super::release::{AREA, LARGE, UNIT};
use crate::bits::each_run;
use crate::sums::Sums;
use crate::{BlockKind, HeapArena, Memory, PageState, Walk};

/// Puts all groups, blocks and structures on the pages of `walk`.
pub fn fill(memory: &dyn Memory, context: &Context, nested: &Nested, walk: &mut Walk) {
    walk.breaks += nested.breaks;
    walk.skipped = walk.skipped.saturating_add(nested.skipped);
    let [groups, large, own] = ["musl, groups", "musl, large blocks", "musl: structures"].map(|name| {
        walk.arenas.push(HeapArena { name: name.into(), ..HeapArena::default() });
        walk.arenas.len() as u32 - 1
    });
    for group in nested.groups.iter().filter(|group| group.mapped > 0) {
        let arena = if group.class == LARGE { large } else { groups };
        region(memory, group.from, group.from + group.mapped, arena, walk);
    }
    for area in &context.areas {
        region(memory, *area, area + AREA, own, walk);
        walk.layout.block(*area, AREA, BlockKind::Structure);
    }
    for which in batches(&nested.groups) {
        let mut batch = Batch::read(memory, context, nested, which.clone());
        let masks = std::mem::take(&mut batch.masks);
        for (at, masks) in which.zip(masks) {
            let (group, inner) = (&nested.groups[at], nested.slots[at]);
            match masks {
                Some(masks) => compare(memory, context, &mut batch, group, [inner, masks[0], masks[1]], walk),
                // The group has gone since it was counted, so there is nothing to compare.
                None => list(group, group.all() & !group.free & !inner, walk),
            }
            count(group, inner, nested.given[at], walk);
        }
    }
}

/// Counts the blocks of a group, and puts them on the pages.
fn count(group: &MuslGroup, inner: u32, is_given: bool, walk: &mut Walk) {
    let taken = group.all() & !group.free & !inner;
    let count = u64::from(taken.count_ones());
    walk.blocks += count;
    walk.live = walk.live.saturating_add(count * group.stride);
    // Memory that the loader gave to musl lies in pages of a library, not in the heap's regions.
    if !is_given {
        walk.layout.block(group.from, UNIT, BlockKind::Structure);
        let mut sums = Sums::new(&mut walk.layout, BlockKind::Live);
        each_run(&[taken.into()], |first, count| sums.add(group.slot(first), count * group.stride));
    }
}

/// Lists the blocks in the slots of `taken`, each with the size of its slot.
fn list(group: &MuslGroup, taken: u32, walk: &mut Walk) {
    each_run(&[taken.into()], |first, count| {
        (first..first + count).for_each(|index| walk.layout.list(group.slot(index), group.stride, 1));
    });
}

/// Compares the head of a group, and of each of its slots, with the masks, and lists the blocks. The masks are the slots with groups in
/// them, the free slots before the copy, and the free slots after it.
fn compare(
    memory: &dyn Memory,
    context: &Context,
    batch: &mut Batch,
    group: &MuslGroup,
    masks: [u32; 3],
    walk: &mut Walk,
) {
    let [inner, before, after] = masks;
    // Bytes in no piece are read only now. Their group or block may have gone since the masks were read.
    let now = || free_now(memory, context, std::slice::from_ref(group)).pop().flatten();
    let is_wrong =
        !batch.is_out(group.from, 8) && batch.written(group.from, 8) != Some(group.meta.to_le_bytes().as_slice());
    if is_wrong && now().is_some() {
        walk.breaks += 1;
        walk.skipped = walk.skipped.saturating_add(group.count * group.stride);
    }
    // A group that was mapped after the mappings were read counts, because its heads fit its meta.
    let is_mapped = is_mapped(memory, group);
    if !is_mapped {
        walk.moved = walk.moved.saturating_add(UNIT);
    }
    for index in (0..group.count).filter(|index| inner >> index & 1 == 0) {
        let is_free = |mask: u32| mask >> index & 1 == 1;
        let head = group.slot(index) - 8;
        // The head of a slot that was never used may have no page, and must not get one.
        let is_unread = batch.is_out(head, 8) || is_free(before) && !batch.had_page(head, 8);
        let found = if is_unread { Err(()) } else { head::block(batch, group, index) };
        if !is_free(group.free) {
            let (at, bytes) = match found {
                Ok(Some(block)) => (block.at, block.bytes),
                _ => (group.slot(index), group.stride),
            };
            walk.layout.list(at, bytes, 1);
        }
        if is_unread || is_free(before) != is_free(after) {
            continue;
        }
        let is_as_told = match found {
            Ok(found) => found.is_none() == is_free(before) || has_group(memory, context, batch, group.slot(index)),
            // The size of a block is at the other end of its slot, which may be in swap.
            Err(()) => has_swapped(memory, group.slot(index), group.slot(index + 1)),
        };
        if !is_as_told && now().is_none_or(|now| is_free(now) != is_free(before)) {
            continue;
        }
        if !is_as_told {
            walk.breaks += 1;
            walk.skipped = walk.skipped.saturating_add(group.stride);
        } else if found.is_err() && !is_mapped {
            walk.moved = walk.moved.saturating_add(group.stride);
        }
    }
}

/// Whether a group lies in this slot now.
fn has_group(memory: &dyn Memory, context: &Context, batch: &mut Batch, slot: u64) -> bool {
    let meta = batch.written(slot, 8).and_then(|bytes| Some(u64::from_le_bytes(bytes.try_into().ok()?)));
    let field = meta.and_then(|meta| meta.checked_add(context.release.meta.group as u64));
    field.is_some_and(|at| memory.word(at) == Some(slot))
}

/// Whether the mappings cover all of a group. They do not if the group was mapped after they were read, or its length is wrong.
fn is_mapped(memory: &dyn Memory, group: &MuslGroup) -> bool {
    let (mut at, to) = (group.from, group.from + group.mapped);
    while at < to {
        let Some(mapping) = memory.mapping(at) else { return false };
        at = mapping.to;
    }
    true
}

fn region(memory: &dyn Memory, from: u64, to: u64, arena: u32, walk: &mut Walk) {
    walk.layout.region(memory.pages(), from, to, arena);
    let swapped = memory.pages().within(from, to).filter(|run| run.state == PageState::Swapped);
    walk.swapped += swapped.map(|run| run.to - run.from).sum::<u64>();
}
