//! Finds the main arena in the writable data of the program and its libraries, and the ring of arenas that begins and ends there. The empty
//! bins of the main arena prove that it is one. Symbols are not needed.

use crate::{Mapping, Memory, Window};

/// The number of bins of an arena.
pub(super) const BINS: u64 = 127;
/// The distance from the bins to the link to the next arena.
pub(super) const NEXT: u64 = 2048;
/// The known distances from an arena's start to its bins.
const STARTS: [u64; 2] = [112, 24];
/// The heaps of thread arenas begin at multiples of this, whatever the size of huge pages.
pub(super) const HEAPS: u64 = 2 << 20;
/// The known lengths of a heap's header. In the first heap of a thread arena, the arena's structure is after this header.
pub(super) const HEADERS: [u64; 2] = [0x20, 0x30];
/// How many times the end of an arena is read at most, until its two values belong together.
const TOPS: usize = 100;
/// The number of bins that may look wrong, because the process changes them during the read.
const MOVING: usize = 4;
/// The most arenas of a ring: glibc makes so many by default on 1024 cores. A longer chain of links is not followed.
pub(super) const MOST: usize = 8 << 10;

/// The arenas of a C library.
#[derive(Debug)]
pub(super) struct Arenas {
    /// The distance from an arena's start to its bins.
    pub bins: u64,
    /// The main arena, then the thread arenas in the order of the ring.
    pub all: Vec<u64>,
    /// The mapping with the main arena: its first address, and the address after its last one.
    pub data: (u64, u64),
}

/// The fields of an arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arena {
    /// Its address.
    pub at: u64,
    /// The free block at the end of its memory.
    pub top: u64,
    /// The number of threads that allocate from it.
    pub threads: u64,
    /// Bytes that it has from the kernel, by its own count.
    pub system: u64,
    /// Whether all its memory is in one piece. Only the main arena's can be.
    pub contiguous: bool,
}

impl Arena {
    pub fn read(memory: &dyn Memory, at: u64, bins: u64) -> Option<Arena> {
        let word = |from_bins: u64| memory.word(at.checked_add(bins + from_bins)?);
        let (top, threads, system) = (memory.word(at.checked_add(bins - 16)?)?, word(2064)?, word(2072)?);
        let flags = memory.word(at)? >> 32;
        Some(Arena { at, top, threads, system, contiguous: flags & 2 == 0 })
    }
}

/// The begin and the end of the free block at the end of an arena. Each allocation from this block changes it, so both values are read
/// again until they belong together.
pub(super) fn end_now(memory: &dyn Memory, at: u64, bins: u64) -> Option<(u64, u64)> {
    let top = || memory.word(at.checked_add(bins - 16)?);
    let mut before = top()?;
    for _ in 0..TOPS {
        let size = memory.word_now(before.checked_add(8)?)? & !7;
        let after = top()?;
        if after == before {
            return Some((before, before.checked_add(size)?));
        }
        before = after;
    }
    None
}

/// Finds the arenas of every C library in the process. There is more than one if a library was loaded into another name space. Libraries
/// whose main arena is in one piece come first, since only the program's own malloc has the data segment. Among these, the one with the
/// most memory comes first.
pub(super) fn find(memory: &dyn Memory) -> Vec<Arenas> {
    let has_data = |one: &&Mapping| one.readable && one.writable && !one.shared && one.inode != 0;
    let mut found = Vec::new();
    for mapping in memory.mappings().iter().filter(has_data) {
        for run in memory.pages().within(mapping.from, mapping.to) {
            find_in(memory, mapping, run.from, run.to, &mut found);
        }
    }
    let rank = |one: &Arenas| {
        let main = Arena::read(memory, one.all[0], one.bins);
        main.map(|main| (main.contiguous && main.system > 0, main.system))
    };
    found.sort_by_cached_key(|one| std::cmp::Reverse(rank(one)));
    found
}

fn find_in(memory: &dyn Memory, data: &Mapping, from: u64, to: u64, found: &mut Vec<Arenas>) {
    let mut window = Window::new(memory);
    let mut at = from;
    while at + 16 <= to {
        let own = at.wrapping_sub(16);
        if window.word(at) == Some(own)
            && window.word(at + 8) == Some(own)
            && let Some((bins, all)) = arenas_by_empty_bin(memory, &mut window, at)
        {
            at = all[0] + bins + NEXT;
            found.push(Arenas { bins, all, data: (data.from, data.to) });
            continue;
        }
        at += 8;
    }
}

/// The arenas, if `at` is an empty bin of the main arena. Which bin this is cannot be seen, so each number is tried. The number is right if
/// the ring of arenas closes.
fn arenas_by_empty_bin(memory: &dyn Memory, window: &mut Window, at: u64) -> Option<(u64, Vec<u64>)> {
    for bin in 0..BINS {
        let bins = at.checked_sub(16 * bin)?;
        let Some(next) = window.word(bins + NEXT) else { continue };
        for start in STARTS {
            let main = bins.checked_sub(start)?;
            let plausible = next == main || HEADERS.contains(&(next % HEAPS));
            if plausible
                && has_bins(memory, window, bins)
                && let Some(all) = ring(memory, main, start)
            {
                return Some((start, all));
            }
        }
    }
    None
}

/// Whether the 127 bins of an arena are at `bins`. Each bin must be empty, or its first or last block must point back to it.
fn has_bins(memory: &dyn Memory, window: &mut Window, bins: u64) -> bool {
    let (mut empty, mut wrong) = (0, 0);
    for bin in 0..BINS {
        let at = bins + 16 * bin;
        let own = at.wrapping_sub(16);
        let (Some(first), Some(last)) = (window.word(at), window.word(at + 8)) else { return false };
        if first == own && last == own {
            empty += 1;
        } else {
            let back = |block: u64, link: u64| memory.word(block.wrapping_add(link)) == Some(own);
            wrong += usize::from(!back(first, 24) && !back(last, 16));
        }
        if wrong > MOVING {
            return false;
        }
    }
    empty >= 2
}

/// The arenas from the main one on, until the ring closes. `None` if it does not close.
fn ring(memory: &dyn Memory, main: u64, start: u64) -> Option<Vec<u64>> {
    let mut all = vec![main];
    loop {
        let next = memory.word(all.last()?.checked_add(start + NEXT)?)?;
        if next == main {
            return Some(all);
        }
        let header = next % HEAPS;
        let of_heap = HEADERS.contains(&header) && memory.word(next - header) == Some(next);
        if !of_heap || all.len() >= MOST {
            return None;
        }
        all.push(next);
    }
}
