//! Puts the groups and their blocks on the pages, and reads the head of each block: it must say what its group's meta says. In: all groups.
//! Out: regions, blocks and sums of a walk.

use super::context::Context;
use super::group::Group;
use super::head::Heads;
use super::nest::Nested;
use super::release::{AREA, LARGE, UNIT};
use crate::bits::each_run;
use crate::sums::Sums;
use crate::{Arena, Kind, Memory, State, Walk};

/// Puts everything on the pages of `walk`.
pub fn fill(memory: &dyn Memory, context: &Context, nested: &Nested, walk: &mut Walk) {
    walk.breaks += nested.breaks;
    walk.skipped = walk.skipped.saturating_add(nested.skipped);
    let [groups, large, own] = ["musl, groups", "musl, large blocks", "musl: structures"].map(|name| {
        walk.arenas.push(Arena { name: name.into(), ..Arena::default() });
        walk.arenas.len() as u32 - 1
    });
    for group in nested.groups.iter().filter(|group| group.mapped > 0) {
        let arena = if group.class == LARGE { large } else { groups };
        region(memory, group.from, group.from + group.mapped, arena, walk);
    }
    for area in &context.areas {
        region(memory, *area, area + AREA, own, walk);
        walk.layout.block(*area, AREA, Kind::Structure);
    }
    let mut read = Heads::new(memory);
    for (at, group) in nested.groups.iter().enumerate() {
        let inner = nested.slots[at];
        if !has_meta(memory, context, group) {
            walk.breaks += 1;
            walk.skipped = walk.skipped.saturating_add(group.count * group.stride);
        }
        if !is_mapped(memory, group) {
            walk.moved = walk.moved.saturating_add(group.count * group.stride);
        }
        let taken = group.all() & !group.free & !inner;
        heads(memory, context, &mut read, group, inner, walk);
        let count = u64::from(taken.count_ones());
        walk.blocks += count;
        walk.live = walk.live.saturating_add(count * group.stride);
        // What the loader gave is in pages of a library.
        if !nested.given[at] {
            walk.layout.block(group.from, UNIT, Kind::Structure);
            let mut sums = Sums::new(&mut walk.layout, Kind::Live);
            each_run(&[taken.into()], |first, count| sums.add(group.slot(first), count * group.stride));
        }
    }
}

/// Whether the group's head points to its meta.
fn has_meta(memory: &dyn Memory, context: &Context, group: &Group) -> bool {
    is_out(memory, group.from)
        || memory.word(group.from) == Some(group.meta)
        || memory.word(group.meta + context.release.meta.group as u64) != Some(group.from)
}

/// Compares the head of each slot with the masks, and lists the blocks.
fn heads(memory: &dyn Memory, context: &Context, read: &mut Heads, group: &Group, inner: u32, walk: &mut Walk) {
    let fields = &context.release.meta;
    let meta = |field: usize| memory.word(group.meta + field as u64);
    for index in (0..group.count).filter(|index| inner >> index & 1 == 0) {
        let taken = group.free >> index & 1 == 0;
        let before = group.slot(index) - 8;
        // A slot that was never used can have no page.
        if is_out(memory, before) || !taken && memory.pages().state(before).is_none() {
            if taken {
                walk.layout.list(group.slot(index), group.stride, 1);
            }
            continue;
        }
        let found = match read.block(group, index) {
            Ok(found) => found,
            // Its size is at its other end.
            Err(()) if taken && has_swapped(memory, group.slot(index), group.slot(index + 1)) => {
                walk.layout.list(group.slot(index), group.stride, 1);
                continue;
            }
            Err(()) => None,
        };
        if taken {
            let (at, bytes) = found.map_or((group.slot(index), group.stride), |block| (block.at, block.bytes));
            walk.layout.list(at, bytes, 1);
        }
        if found.is_some() == taken {
            continue;
        }
        // The masks were read first: a block may have been freed, or another one allocated, since then, or the whole group is gone.
        let is_same = |masks: u64| ((masks as u32 | (masks >> 32) as u32) >> index & 1 == 0) == taken;
        if meta(fields.group) == Some(group.from) && meta(fields.masks).is_some_and(is_same) {
            walk.breaks += 1;
            walk.skipped = walk.skipped.saturating_add(group.stride);
        }
    }
}

/// Whether all of a group's mapping is in mappings. One that was mapped since they were read is not, nor is one of a wrong length.
fn is_mapped(memory: &dyn Memory, group: &Group) -> bool {
    let (mut at, to) = (group.from, group.from + group.mapped);
    while at < to {
        let Some(mapping) = memory.mapping(at) else { return false };
        at = mapping.to;
    }
    true
}

/// Whether a page of a range is in swap.
fn has_swapped(memory: &dyn Memory, from: u64, to: u64) -> bool {
    memory.pages().within(from, to).any(|run| run.state == State::Swapped)
}

/// Whether a page is in swap.
fn is_out(memory: &dyn Memory, at: u64) -> bool {
    memory.pages().state(at) == Some(State::Swapped)
}

fn region(memory: &dyn Memory, from: u64, to: u64, arena: u32, walk: &mut Walk) {
    walk.layout.region(memory.pages(), from, to, arena);
    let swapped = memory.pages().within(from, to).filter(|run| run.state == State::Swapped);
    walk.swapped += swapped.map(|run| run.to - run.from).sum::<u64>();
}
