//! Compares the allocator's own counts with what the walk found. The process runs, so the counts are read before and after the walk. The
//! tolerance is the difference between these two readings, plus a fiftieth of the bytes. Only bytes that were walked count as found. Bytes
//! that were skipped for any reason count as missing.

use super::arenas::Arena;
use super::chunks::Extent;
use super::memories::Memories;
use super::params::Params;
use super::structures::Structures;
use crate::{CountCheck, Memory};

/// The bytes may differ by 1 / `PART`.
const PART: u64 = 50;
/// One thread cache in this many may be missing, because threads begin and end.
const CACHES: u64 = 20;

/// An arena's name in reports.
pub(super) fn name(index: usize) -> String {
    if index == 0 { "main arena".into() } else { format!("thread arena {index}") }
}

/// What the walk found.
#[derive(Debug)]
pub(super) struct Walked {
    /// The bytes of each arena that were walked.
    pub arenas: Vec<u64>,
    /// The bytes of the cached blocks.
    pub cached: u64,
}

/// Checks the bytes of each arena, the blocks with their own pages, and the thread caches. `after` is the allocator's counts after the
/// walk.
pub(super) fn all(
    memory: &dyn Memory,
    found: &Structures,
    after: &Params,
    memories: &Memories,
    walked: &Walked,
) -> Vec<CountCheck> {
    let arenas = found.arenas.iter().enumerate().map(|(index, before)| {
        let after = Arena::read(memory, before.at, found.release.bins).unwrap_or(*before);
        let grown: u64 = memories.pieces[index].iter().map(|piece| grown(memory, &piece.blocks)).sum();
        let changed = before.system.abs_diff(after.system).saturating_add(grown);
        CountCheck {
            what: format!("bytes of {}", name(index)),
            wanted: after.system,
            found: walked.arenas[index],
            tolerance: changed.saturating_add(after.system / PART),
        }
    });
    let mut checks: Vec<CountCheck> = arenas.collect();
    let before = &found.params;
    let part = found.system().saturating_add(after.mmapped_bytes) / PART;
    checks.push(CountCheck {
        what: "mmapped blocks".into(),
        wanted: after.mmapped,
        found: memories.mmapped.len() as u64,
        // The next check compares the bytes of these blocks, so a few of them matter little here. They come and go
        // during the walk.
        tolerance: before.mmapped.abs_diff(after.mmapped) + 2 + after.mmapped / PART,
    });
    checks.push(CountCheck {
        what: "bytes of mmapped blocks".into(),
        wanted: after.mmapped_bytes,
        found: memories.mmapped_bytes,
        tolerance: before.mmapped_bytes.abs_diff(after.mmapped_bytes).saturating_add(part),
    });
    let caches = &found.caches;
    checks.push(CountCheck {
        what: "thread caches".into(),
        wanted: caches.wanted,
        found: caches.found,
        tolerance: caches.wanted / CACHES,
    });
    checks.push(CountCheck {
        what: "bytes in thread caches".into(),
        wanted: caches.listed.bytes,
        found: walked.cached,
        tolerance: part,
    });
    checks
}

/// The bytes by which a piece has grown since the mappings were read. At that time the main arena had no mapping there, and the heap of
/// a thread arena had a reserve without rights.
fn grown(memory: &dyn Memory, blocks: &Extent) -> u64 {
    let known =
        memory.mapping(blocks.end.saturating_sub(1)).filter(|one| blocks.arena == 0 || one.readable || one.writable);
    if known.is_some() { 0 } else { blocks.end - blocks.to }
}
