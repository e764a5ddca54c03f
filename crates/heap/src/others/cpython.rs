//! Recognises CPython's arenas. Small objects are in pools of 16 KiB (4 KiB before 3.10), and pools are in arenas of 1 MiB (before 3.10,
//! 256 KiB). A pool begins with the number of its used objects, and later has the size class. The place of the last object must fit this
//! class.

use super::{RuntimeHeap, Sight};
use crate::{Mapping, PAGE};

/// The arenas of small objects.
pub const ARENAS: RuntimeHeap = RuntimeHeap {
    name: "CPython's arenas",
    how: "half of the memory or more is in pools that prove themselves",
    tool: "tracemalloc; sys._debugmallocstats(); or start with PYTHONMALLOC=malloc",
    is_here: |sight| sight.executable.starts_with("python") || sight.has_file("libpython"),
    owns,
};

/// The bytes of a header.
const HEADER: u32 = 48;
/// The classes of sizes: multiples of 16 up to 512.
const CLASSES: u32 = 32;

fn owns(sight: &Sight, mapping: &Mapping) -> bool {
    let pages = sight.memory.pages();
    let resident = pages.resident(mapping.from, mapping.to);
    let (mut at, mut pools) = (mapping.from, 0);
    for run in pages.within(mapping.from, mapping.to).filter(|run| run.state.is_resident()) {
        // A pool may continue in the next run.
        at = at.max(run.from);
        while at < run.to {
            let bytes = pool(sight, at).unwrap_or_default();
            pools += bytes;
            at += bytes.max(PAGE);
        }
    }
    pools > 0 && pools * 2 >= resident
}

/// The bytes of the pool at an address, if there is a pool.
fn pool(sight: &Sight, at: u64) -> Option<u64> {
    let mut bytes = [0; HEADER as usize];
    if !sight.memory.read(at, &mut bytes) {
        return None;
    }
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let (count, class, next, last) = (number(0), number(36), number(40), number(44));
    let size = (class < CLASSES).then_some((class + 1) * 16)?;
    let pool = last.checked_add(size)?;
    let is_pool = pool == 16 << 10 || pool == 4 << 10;
    let fits = count <= (pool - HEADER) / size && next >= HEADER && next <= pool;
    (is_pool && fits).then_some(pool.into())
}
