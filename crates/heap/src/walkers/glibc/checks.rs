//! What the allocator counts itself, next to what the walk found. The counts are read before and after the walk: a difference between
//! these two readings is a tolerance, since the process runs, and so is a fiftieth of the bytes.

use super::arenas::Arena;
use super::caches::Caches;
use super::heaps::Piece;
use super::mappings::Found;
use super::params::Params;
use super::release::Release;
use crate::{Check, Memory};

/// One part in this many of the bytes may differ.
const PART: u64 = 50;

/// An arena's name in reports.
pub(super) fn name(index: usize) -> String {
    if index == 0 { "main arena".into() } else { format!("thread arena {index}") }
}

/// The bytes that each arena has from the kernel.
pub(super) fn of_arenas(memory: &dyn Memory, arenas: &[Arena], release: &Release, pieces: &[Vec<Piece>]) -> Vec<Check> {
    let check = |(index, (before, pieces)): (usize, (&Arena, &Vec<Piece>))| {
        let after = Arena::read(memory, before.at, release.bins).unwrap_or(*before);
        Check {
            what: format!("bytes of {}", name(index)),
            wanted: after.system,
            found: pieces.iter().map(|piece| piece.blocks.to - piece.from).sum(),
            tolerance: before.system.abs_diff(after.system) + after.system / PART,
        }
    };
    arenas.iter().zip(pieces).enumerate().map(check).collect()
}

/// The blocks that have their own pages.
pub(super) fn of_mmapped(
    memory: &dyn Memory,
    release: &Release,
    before: &Params,
    arenas: &[Arena],
    found: &Found,
) -> [Check; 2] {
    let after = before.again(memory, release).unwrap_or(*before);
    [
        Check {
            what: "mmapped blocks".into(),
            wanted: after.mmapped,
            found: found.mmapped.len() as u64,
            // Which share of the heap they are is told by their bytes. These few come and go while the walk lasts.
            tolerance: before.mmapped.abs_diff(after.mmapped) + 2 + after.mmapped / PART,
        },
        Check {
            what: "bytes of mmapped blocks".into(),
            wanted: after.mmapped_bytes,
            found: found.mmapped_bytes,
            tolerance: before.mmapped_bytes.abs_diff(after.mmapped_bytes)
                + (after.mmapped_bytes + system(arenas)) / PART,
        },
    ]
}

/// The thread caches, and the bytes in them.
pub(super) fn of_caches(caches: &Caches, met: u64, arenas: &[Arena]) -> [Check; 2] {
    [
        Check {
            what: "thread caches".into(),
            wanted: caches.wanted,
            found: caches.found,
            tolerance: caches.wanted / 20,
        },
        Check {
            what: "bytes in thread caches".into(),
            wanted: caches.listed.bytes,
            found: met,
            tolerance: system(arenas) / PART,
        },
    ]
}

fn system(arenas: &[Arena]) -> u64 {
    arenas.iter().fold(0, |sum: u64, arena| sum.saturating_add(arena.system))
}
