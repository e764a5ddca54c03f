//! Copies the memory of adjacent groups, and reads their masks just before and just after.
//!
//! The masks of all groups were read first, and much can have changed since then. So the heads of blocks are compared with masks that are
//! read together with them: blocks seldom change in so short a time.

use std::ops::Range;

use super::context::Context;
use super::group::MuslGroup;
use super::nest::Nested;
use crate::{Memory, PageState, Piece, Window};

/// About this many bytes are copied at once. The process's `mmap` and `munmap` have to wait only while a part of them is copied.
const BYTES: u64 = 1 << 20;
/// About this many groups are copied at once.
const GROUPS: usize = 512;

/// Slots of at least this many bytes are not copied, because only their heads are needed, and these can be anywhere in a slot. In smaller
/// slots most of what is needed lies close together.
const WIDE: u64 = 128 << 10;

/// Groups that are compared with their masks together.
pub struct Batch<'a> {
    memory: &'a dyn Memory,
    /// The memory of the groups with slots smaller than [`WIDE`], in the order of their addresses.
    pieces: Vec<Piece>,
    /// For each piece, whether all its pages were there when the states of the pages were read.
    full: Vec<bool>,
    /// The index of the piece that was used last.
    last: usize,
    /// Reads bytes that are in no piece.
    others: Window<'a>,
    /// A buffer for bytes that `read_now` reads.
    now: [u8; 8],
    /// For each group, the free slots before its memory was copied and after. `None` if the group was gone.
    pub masks: Vec<Option<[u32; 2]>>,
}

/// Divides the groups into batches. A group that lies in another one is in the same batch.
pub fn batches(groups: &[MuslGroup]) -> Vec<Range<usize>> {
    let (mut all, mut first, mut bytes, mut end): (Vec<Range<usize>>, _, _, _) = (Vec::new(), 0, 0, 0);
    // The end of the last group that is copied. A wide group is not copied, but groups in it may be.
    let mut narrow_end = 0;
    for (index, group) in groups.iter().enumerate() {
        if group.from >= end {
            if bytes >= BYTES || index - first >= GROUPS {
                all.push(first..index);
                (first, bytes) = (index, 0);
            }
            end = group.to();
        }
        if group.stride < WIDE && group.from >= narrow_end {
            bytes += group.to() - group.from;
            narrow_end = group.to();
        }
    }
    all.push(first..groups.len());
    all
}

impl<'a> Batch<'a> {
    /// Copies the memory of some groups, without those that are gone by now.
    pub fn read(memory: &'a dyn Memory, context: &Context, nested: &Nested, which: Range<usize>) -> Batch<'a> {
        let groups = &nested.groups[which];
        let before = free_now(memory, context, groups);
        let (mut pieces, mut end): (Vec<Piece>, u64) = (Vec::new(), 0);
        for (group, _) in groups.iter().zip(&before).filter(|(group, free)| free.is_some() && group.stride < WIDE) {
            if group.from >= end {
                pieces.push(Piece::new(group.from, (group.to() - group.from) as usize));
                end = group.to();
            }
        }
        memory.read_each(&mut pieces);
        let after = free_now(memory, context, groups);
        let full = pieces.iter().map(|piece| is_full(memory, piece)).collect();
        let masks = before.into_iter().zip(after).map(|(before, after)| Some([before?, after?])).collect();
        Batch { memory, pieces, full, last: 0, others: Window::of_pages(memory), now: [0; 8], masks }
    }

    /// The index of the piece that contains the bytes.
    fn find(&mut self, at: u64, count: usize) -> Option<usize> {
        let has = |index: &usize| self.pieces.get(*index).is_some_and(|piece| piece.get(at, count).is_some());
        if !has(&self.last) {
            self.last = self.pieces.partition_point(|piece| piece.at <= at).saturating_sub(1);
        }
        Some(self.last).filter(has)
    }

    /// `count` bytes from an address on. Bytes without a page, when the states of the pages were read, are zero.
    pub fn bytes(&mut self, at: u64, count: usize) -> Option<&[u8]> {
        match self.find(at, count) {
            Some(index) => self.pieces[index].get(at, count),
            None => self.others.bytes(at, count),
        }
    }

    /// As [`Batch::bytes`], for at most eight bytes that musl has written. They have a page now, even if they had none when the states of
    /// the pages were read.
    pub fn written(&mut self, at: u64, count: usize) -> Option<&[u8]> {
        if self.had_page(at, count) {
            return self.bytes(at, count);
        }
        let now = &mut self.now[..count];
        self.memory.read_now(at, now).then_some(&*now)
    }

    /// Whether an address was in no mapping when the mappings were read.
    pub fn is_new(&self, at: u64) -> bool {
        self.memory.mapping(at).is_none()
    }

    /// Whether the bytes had pages when the states of the pages were read.
    pub fn had_page(&mut self, at: u64, count: usize) -> bool {
        let has_page = |at: u64| self.memory.pages().state(at).is_some();
        self.is_full(at, count) || has_page(at) && has_page(at + count as u64 - 1)
    }

    /// Whether a page of the bytes is in swap.
    pub fn is_out(&mut self, at: u64, count: usize) -> bool {
        !self.is_full(at, count) && has_swapped(self.memory, at, at + count as u64)
    }

    fn is_full(&mut self, at: u64, count: usize) -> bool {
        self.find(at, count).is_some_and(|index| self.full[index])
    }
}

/// Whether all pages of a piece were there, and may be read.
fn is_full(memory: &dyn Memory, piece: &Piece) -> bool {
    let (from, to) = (piece.at, piece.at + piece.bytes.len() as u64);
    let there = memory.pages().within(from, to).filter(|run| run.state.may_be_read());
    there.map(|run| run.to - run.from).sum::<u64>() == to - from
}

/// Whether a page of a range is in swap.
pub fn has_swapped(memory: &dyn Memory, from: u64, to: u64) -> bool {
    memory.pages().within(from, to).any(|run| run.state == PageState::Swapped)
}

/// The present free slots of each group, read from its meta. `None` if the group is gone.
pub fn free_now(memory: &dyn Memory, context: &Context, groups: &[MuslGroup]) -> Vec<Option<u32>> {
    let bytes = context.release.meta.bytes;
    let mut metas: Vec<Piece> = groups.iter().map(|group| Piece::new(group.meta, bytes)).collect();
    memory.read_each(&mut metas);
    let free = |(group, meta): (&MuslGroup, &Piece)| {
        let now = MuslGroup::parse(group.meta, meta.get(group.meta, bytes)?, context.release)?.ok()?;
        (MuslGroup { free: group.free, ..now } == *group).then_some(now.free)
    };
    groups.iter().zip(&metas).map(free).collect()
}
