//! Reads the arenas: which of their slices of 64 KiB are free, and in which a page begins.
//!
//! mimalloc's structure for the process (`mi_subproc_t`) lists the arenas, and each arena and each thread points to this structure. An
//! arena's bitmaps are adjacent, in the slices that the arena keeps for itself. A bitmap begins with its count of chunks. Its chunks of 64
//! bytes are at its end, or begin at a fixed distance.

use std::collections::BTreeSet;

use super::page::{MiPage, SLICE};
use super::release::MimallocRelease;
use crate::Memory;

/// The chunks of the longest bitmap. Each has 512 bits.
const LONGEST: u64 = 512;

/// An arena.
#[derive(Debug)]
pub struct MiArena {
    /// Its address.
    pub at: u64,
    /// The address of its first slice.
    pub base: u64,
    /// The number of its slices.
    pub slices: u64,
    /// The number of its first slices, which hold its structures.
    pub own: u64,
    free: Vec<u8>,
    pages: Vec<u8>,
}

/// The arenas that the process lists or that pages name. Also returns how many could not be read or are in no list.
pub fn all(memory: &dyn Memory, pages: &[MiPage], release: &MimallocRelease) -> (Vec<MiArena>, u64) {
    let fields = &release.process;
    let named: BTreeSet<u64> = pages.iter().filter_map(MiPage::arena).collect();
    let owners: BTreeSet<u64> = pages.iter().map(|page| page.owner).collect();
    let after = |at: u64, bytes: u64| memory.word(at.checked_add(bytes)?).filter(|at| *at != 0);
    let mut processes: BTreeSet<u64> = named.iter().filter_map(|arena| after(*arena, release.arena.subproc)).collect();
    processes.extend(owners.iter().filter_map(|owner| after(after(*owner, release.owner.tld)?, fields.of_thread)));
    let mut listed = BTreeSet::new();
    for process in processes {
        let count = after(process, fields.arena_count).filter(|count| *count <= fields.most).unwrap_or(0);
        listed.extend((0..count).filter_map(|index| after(process, fields.arenas + 8 * index)));
    }
    let all: Vec<u64> = listed.union(&named).copied().collect();
    let arenas: Vec<MiArena> = all.iter().filter_map(|at| MiArena::read(memory, *at, release)).collect();
    let unsure = all.len() - arenas.len() + named.difference(&listed).count();
    (arenas, unsure as u64)
}

impl MiArena {
    /// Reads an arena. `None` if the fields cannot be those of an arena.
    fn read(memory: &dyn Memory, at: u64, release: &MimallocRelease) -> Option<MiArena> {
        let fields = &release.arena;
        let word = |offset: u64| memory.word(at.checked_add(offset)?);
        let (slices, own) = (word(fields.slice_count)?, word(fields.info_slices)?);
        let (free, committed) = (word(fields.slices_free)?, word(fields.slices_committed)?);
        let pages = word(fields.pages)?;
        let base = fields.base.map_or(Some(at), word)?;
        let keeps = base..base.checked_add(own.checked_mul(SLICE)?)?;
        let fits = base.is_multiple_of(SLICE) && keeps.contains(&at) && own < slices && slices <= LONGEST * 512;
        if !fits || ![free, committed, pages].iter().all(|bitmap| keeps.contains(bitmap)) {
            return None;
        }
        let chunks = memory.word(free)?;
        if chunks == 0 || chunks > LONGEST || memory.word(pages)? != chunks || slices > chunks * 512 {
            return None;
        }
        let bytes = |from: u64| {
            let mut bytes = vec![0; 64 * chunks as usize];
            memory.read(from, &mut bytes).then_some(bytes)
        };
        let free = bytes(committed.checked_sub(64 * chunks)?)?;
        Some(MiArena { at, base, slices, own, free, pages: bytes(pages + fields.pages_chunks)? })
    }

    /// The first address after it.
    pub fn end(&self) -> u64 {
        self.base.saturating_add(self.slices * SLICE)
    }

    /// Whether a slice is free.
    pub fn is_free(&self, slice: u64) -> bool {
        bit(&self.free, slice)
    }

    /// Whether a page of the main heap begins in a slice.
    pub fn has_page(&self, slice: u64) -> bool {
        bit(&self.pages, slice)
    }
}

fn bit(bits: &[u8], at: u64) -> bool {
    bits.get((at / 8) as usize).is_some_and(|byte| byte >> (at % 8) & 1 == 1)
}
