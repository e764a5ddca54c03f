//! A copy of a process's memory, or of a part of it, at one moment. In: a memory, and ranges. Out: a [`Memory`], so that the walkers run on
//! what was copied.

use std::cell::Cell;
use std::ops::Range;

use crate::{Fact, Mapping, Memory, PAGE, PageState, PageStates, ThreadId};

/// The most that is copied in one read.
pub const PIECE: u64 = 4 << 20;

/// A stretch of addresses, and where its bytes are in the copy.
#[derive(Clone, Copy, Debug)]
struct Run {
    from: u64,
    to: u64,
    place: usize,
}

/// The copy. What it does not have, such as the constants of a program, is read from the memory itself.
pub struct MemoryCopy<'a> {
    memory: &'a dyn Memory,
    runs: Vec<Run>,
    bytes: Vec<u8>,
    /// How many of the bytes are in use.
    used: usize,
    /// Whether what was not copied is read when it is asked for.
    is_part: bool,
    wants_blocks: bool,
    /// The run of the last read.
    last: Cell<usize>,
    /// Bytes that were to be copied and could not be.
    pub missing: u64,
}

/// Where the copied bytes go. It is made before they are copied, so that the copying is short.
pub struct CopyRoom(Vec<u8>);

impl CopyRoom {
    /// Room for so many bytes. More may be copied into it; that takes longer.
    pub fn of(bytes: u64) -> CopyRoom {
        let mut room = vec![0_u8; bytes as usize];
        // The kernel gives each page now, and not while bytes are copied.
        room.iter_mut().step_by(PAGE as usize).for_each(|byte| *std::hint::black_box(byte) = 0);
        CopyRoom(room)
    }
}

impl<'a> MemoryCopy<'a> {
    /// Copies some ranges, in the order of their addresses. The copy has no words but these.
    pub fn of_all(memory: &'a dyn Memory, ranges: &[Range<u64>], room: CopyRoom) -> MemoryCopy<'a> {
        MemoryCopy::of_ranges(memory, ranges, false, room)
    }

    /// Copies some ranges, in the order of their addresses. What else is asked for is read then.
    pub fn of_part(memory: &'a dyn Memory, ranges: &[Range<u64>], room: CopyRoom) -> MemoryCopy<'a> {
        MemoryCopy::of_ranges(memory, ranges, true, room)
    }

    /// The walkers list each live block that they find in it.
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
                    // A page of it is gone, or in swap. What was not resident need not be there.
                    (at..to).step_by(PAGE as usize).for_each(|page| {
                        let is_missing = !copy.add(page, (page + PAGE).min(to))
                            && memory.pages().state(page).is_some_and(PageState::is_resident);
                        copy.missing += if is_missing { PAGE } else { 0 };
                    });
                }
                at = to;
            }
        }
        copy
    }

    /// The room of its bytes, for the next copy.
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
        // What the program may not read now is there nevertheless.
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

    /// The run that has an address, or the first one behind it.
    fn run(&self, at: u64) -> Option<Run> {
        let last = self.last.get();
        if let Some(run) = self.runs.get(last).filter(|run| run.from <= at && at < run.to) {
            return Some(*run);
        }
        let found = self.runs.partition_point(|run| run.to <= at);
        self.last.set(found);
        self.runs.get(found).copied()
    }

    /// The copied bytes from an address on, at most so many: fewer where the copy ends. `None` if it does not have the address.
    pub fn bytes(&self, at: u64, most: u64) -> Option<&[u8]> {
        let run = self.run(at).filter(|run| run.from <= at)?;
        let place = run.place + (at - run.from) as usize;
        Some(&self.bytes[place..place + most.min(run.to - at) as usize])
    }

    /// The next address behind one that the copy does not have, at most `end`.
    pub fn next(&self, at: u64, end: u64) -> u64 {
        self.run(at).map_or(end, |run| run.from.max(at).min(end))
    }

    /// The word at an address in the copy; of a part of the memory it is read if it was not copied.
    pub fn copied(&self, at: u64) -> Option<u64> {
        let copied = self.bytes(at, 8).and_then(|bytes| Some(u64::from_le_bytes(bytes.try_into().ok()?)));
        copied.or_else(|| self.is_part.then(|| self.word(at))?)
    }

    /// Visits the eight bytes from each address of a range on, where they were copied: compiled code has addresses at any place.
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

    /// Visits the aligned words of a range that were copied: the address, and the word.
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
