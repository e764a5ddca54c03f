//! A copy of a process's memory, or of a part of it, at one moment. The copy is a [`Memory`] too, so walkers can run on it.

use std::cell::Cell;
use std::ops::Range;

use crate::{Fact, Machine, Mapping, Memory, PAGE, PageState, PageStates, ThreadId};

/// The most bytes that are copied in one read.
pub const PIECE: u64 = 4 << 20;

/// A range of addresses, and the index of its first byte in the copied bytes.
#[derive(Clone, Copy, Debug)]
struct Run {
    from: u64,
    to: u64,
    place: usize,
}

/// A copy of some ranges. As a [`Memory`], it reads all other bytes, such as a program's constants, from the original memory.
pub struct MemoryCopy<'a> {
    memory: &'a dyn Memory,
    runs: Vec<Run>,
    bytes: Vec<u8>,
    /// How many of `bytes` are in use.
    used: usize,
    /// Whether [`MemoryCopy::copied`] may read words that were not copied from the original memory.
    is_part: bool,
    wants_blocks: bool,
    /// The index of the run of the last read: the next read is mostly near it.
    last: Cell<usize>,
    /// Resident bytes of the ranges that could not be copied.
    pub missing: u64,
}

/// Memory for the copied bytes. It is allocated beforehand, so that the copying is short.
pub struct CopyRoom(Vec<u8>);

impl CopyRoom {
    /// Room for this many bytes. A larger copy is possible, but takes longer.
    pub fn of(bytes: u64) -> CopyRoom {
        let mut room = vec![0_u8; bytes as usize];
        // A write to each page makes the kernel give it now, not during the copying.
        room.iter_mut().step_by(PAGE as usize).for_each(|byte| *std::hint::black_box(byte) = 0);
        CopyRoom(room)
    }
}

impl<'a> MemoryCopy<'a> {
    /// Copies ranges, which are in the order of their addresses. [`MemoryCopy::copied`] returns no other words.
    pub fn of_all(memory: &'a dyn Memory, ranges: &[Range<u64>], room: CopyRoom) -> MemoryCopy<'a> {
        MemoryCopy::of_ranges(memory, ranges, false, room)
    }

    /// Copies ranges, which are in the order of their addresses. [`MemoryCopy::copied`] reads other words from the original memory.
    pub fn of_part(memory: &'a dyn Memory, ranges: &[Range<u64>], room: CopyRoom) -> MemoryCopy<'a> {
        MemoryCopy::of_ranges(memory, ranges, true, room)
    }

    /// Makes the walkers list each live block that they find in this copy.
    pub fn listing_blocks(self) -> MemoryCopy<'a> {
        MemoryCopy { wants_blocks: true, ..self }
    }

    fn of_ranges(memory: &'a dyn Memory, ranges: &[Range<u64>], is_part: bool, room: CopyRoom) -> MemoryCopy<'a> {
        let mut copy = MemoryCopy {
            memory,
            runs: Vec::new(),
            bytes: room.0,
            used: 0,
            is_part,
            wants_blocks: memory.wants_blocks(),
            last: Cell::new(0),
            missing: 0,
        };
        for range in ranges {
            let mut at = range.start;
            while at < range.end {
                let to = range.end.min(at + PIECE);
                if !copy.add(at, to) {
                    // Some page of this range is gone or in swap. Each page is tried alone. Only those that were resident count as missing.
                    let bytes = memory.machine().page;
                    (at..to).step_by(bytes as usize).for_each(|page| {
                        let is_missing = !copy.add(page, (page + bytes).min(to))
                            && memory.pages().state(page).is_some_and(PageState::is_resident);
                        copy.missing += if is_missing { bytes } else { 0 };
                    });
                }
                at = to;
            }
        }
        copy
    }

    /// Returns the room, so that the next copy can use it.
    pub fn into_room(self) -> CopyRoom {
        CopyRoom(self.bytes)
    }

    fn add(&mut self, from: u64, to: u64) -> bool {
        let place = self.used;
        let end = place + (to - from) as usize;
        if end > self.bytes.len() {
            self.bytes.resize(end, 0);
        }
        let part = &mut self.bytes[place..end];
        // Pages without the right to read still have bytes, and `read_now` can read them.
        let is_hidden = || self.memory.mapping(from).is_some_and(|mapping| !mapping.readable && to <= mapping.to);
        if !(self.memory.read(from, part) || is_hidden() && self.memory.read_now(from, part)) {
            return false;
        }
        self.used = end;
        match self.runs.last_mut() {
            Some(last) if last.to == from => last.to = to,
            _ => self.runs.push(Run { from, to, place }),
        }
        true
    }

    /// The run with this address, or the first one behind it.
    fn run(&self, at: u64) -> Option<Run> {
        let last = self.last.get();
        if let Some(run) = self.runs.get(last).filter(|run| run.from <= at && at < run.to) {
            return Some(*run);
        }
        let found = self.runs.partition_point(|run| run.to <= at);
        self.last.set(found);
        self.runs.get(found).copied()
    }

    /// At most `most` copied bytes from an address on, fewer where the run ends. `None` if the address was not copied.
    pub fn bytes(&self, at: u64, most: u64) -> Option<&[u8]> {
        let run = self.run(at).filter(|run| run.from <= at)?;
        let place = run.place + (at - run.from) as usize;
        Some(&self.bytes[place..place + most.min(run.to - at) as usize])
    }

    /// The next copied address at or behind `at`, at most `end`.
    pub fn next(&self, at: u64, end: u64) -> u64 {
        self.run(at).map_or(end, |run| run.from.max(at).min(end))
    }

    /// The word at an address, if it was copied. A copy from [`MemoryCopy::of_part`] reads other words from the original memory.
    pub fn copied(&self, at: u64) -> Option<u64> {
        let copied = self.bytes(at, 8).and_then(|bytes| Some(u64::from_le_bytes(bytes.try_into().ok()?)));
        copied.or_else(|| self.is_part.then(|| self.word(at))?)
    }

    /// Visits the eight bytes at each copied address of a range, not only at aligned ones: compiled code has addresses at any place.
    pub fn each_place(&self, range: Range<u64>, mut visit: impl FnMut(u64, u64)) {
        let mut at = range.start;
        while at < range.end {
            match self.bytes(at, range.end - at) {
                Some(bytes) => {
                    for (place, word) in (at..).zip(bytes.windows(8)) {
                        visit(place, u64::from_le_bytes(word.try_into().expect("a window has eight bytes")));
                    }
                    at += bytes.len() as u64;
                }
                None => at = self.next(at, range.end),
            }
        }
    }

    /// Visits the copied, aligned words of a range. `visit` gets the address and the word.
    pub fn each_word(&self, range: Range<u64>, mut visit: impl FnMut(u64, u64)) {
        let mut at = range.start.next_multiple_of(8);
        while at < range.end {
            let Some(run) = self.run(at) else { return };
            at = at.max(run.from);
            let to = run.to.min(range.end);
            if at >= to {
                return;
            }
            let place = run.place + (at - run.from) as usize;
            let words = self.bytes[place..place + (to - at) as usize].chunks_exact(8);
            for (at, word) in (at..).step_by(8).zip(words) {
                visit(at, u64::from_le_bytes(word.try_into().expect("a chunk has eight bytes")));
            }
            at = to.next_multiple_of(8);
        }
    }
}

impl Memory for MemoryCopy<'_> {
    fn machine(&self) -> Machine {
        self.memory.machine()
    }

    fn mappings(&self) -> &[Mapping] {
        self.memory.mappings()
    }

    fn threads(&self) -> &[ThreadId] {
        self.memory.threads()
    }

    fn pages(&self) -> &PageStates {
        self.memory.pages()
    }

    fn fact(&self, mapping: &Mapping, fact: Fact) -> Option<Option<u64>> {
        self.memory.fact(mapping, fact)
    }

    fn wants_blocks(&self) -> bool {
        self.wants_blocks
    }

    fn is_late(&self) -> bool {
        self.memory.is_late()
    }

    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        let Some(end) = at.checked_add(into.len() as u64) else { return false };
        let mut from = at;
        while from < end {
            let part = &mut into[(from - at) as usize..];
            let run = self.run(from);
            match run.filter(|run| run.from <= from) {
                Some(run) => {
                    let to = end.min(run.to);
                    let place = run.place + (from - run.from) as usize;
                    let count = (to - from) as usize;
                    part[..count].copy_from_slice(&self.bytes[place..place + count]);
                    from = to;
                }
                None => {
                    let to = run.map_or(end, |run| run.from.min(end));
                    if !self.memory.read(from, &mut part[..(to - from) as usize]) {
                        return false;
                    }
                    from = to;
                }
            }
        }
        true
    }
}
