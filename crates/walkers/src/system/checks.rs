//! What the allocator counts itself, next to what the walk found. The counts are read before and after the walk: a difference between
//! these two readings is a tolerance, since the process runs, and so is a fiftieth of the bytes.

use super::arenas::Arena;
use super::memories::Memories;
use super::structures::Structures;
use crate::{Check, Memory};

/// One part in this many of the bytes may differ.
const PART: u64 = 50;
/// One in this many thread caches may be missing: threads begin and end.
const CACHES: u64 = 20;

/// An arena's name in reports.
pub(super) fn name(index: usize) -> String {
    if index == 0 { "main arena".into() } else { format!("thread arena {index}") }
}

/// The bytes of each arena, the blocks with their own pages, and the thread caches. `cached` is the bytes of cached
/// blocks that the walk has met.
pub(super) fn all(memory: &dyn Memory, found: &Structures, memories: &Memories, cached: u64) -> Vec<Check> {
    let arenas = found.arenas.iter().enumerate().map(|(index, before)| {
        let after = Arena::read(memory, before.at, found.release.bins).unwrap_or(*before);
        Check {
            what: format!("bytes of {}", name(index)),
            wanted: after.system,
            found: memories.pieces[index].iter().map(|piece| piece.blocks.end - piece.from).sum(),
            tolerance: (before.system.abs_diff(after.system)).saturating_add(after.system / PART),
        }
    });
    let mut checks: Vec<Check> = arenas.collect();
    let before = &found.params;
    let after = before.again(memory, found.release).unwrap_or(*before);
    let part = found.system().saturating_add(after.mmapped_bytes) / PART;
    checks.push(Check {
        what: "mmapped blocks".into(),
        wanted: after.mmapped,
        found: memories.mmapped.len() as u64,
        // Which share of the heap they are is told by their bytes. These few come and go while the walk lasts.
        tolerance: before.mmapped.abs_diff(after.mmapped) + 2 + after.mmapped / PART,
    });
    checks.push(Check {
        what: "bytes of mmapped blocks".into(),
        wanted: after.mmapped_bytes,
        found: memories.mmapped_bytes,
        tolerance: before.mmapped_bytes.abs_diff(after.mmapped_bytes).saturating_add(part),
    });
    let caches = &found.caches;
    checks.push(Check {
        what: "thread caches".into(),
        wanted: caches.wanted,
        found: caches.found,
        tolerance: caches.wanted / CACHES,
    });
    checks.push(Check {
        what: "bytes in thread caches".into(),
        wanted: caches.listed.bytes,
        found: cached,
        tolerance: part,
    });
    checks
}
