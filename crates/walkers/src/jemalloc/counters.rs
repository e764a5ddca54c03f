//! Reads jemalloc's own counters without a walk: the pages in use of each arena.

use serde::{Deserialize, Serialize};

use super::{metadata, release, rtree};
use crate::Memory;
use crate::counts::{AllocatorCounters, MemoryReader};

/// The addresses of the counters. An arena that is created later is missing until `JemallocPlace::find` runs again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JemallocPlace {
    arenas: Vec<Pages>,
}

/// The number of arenas on a machine with 256 processors, four for each. If a process seems to have more, none are used: its memory may
/// have been damaged.
const MOST: usize = 1024;

fn small_page() -> u64 {
    crate::PAGE
}

/// An arena's counter of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Pages {
    at: u64,
    /// The bytes of a page. Those that were saved without had 4 KiB.
    #[serde(default = "small_page")]
    page: u64,
    /// The address and the value of a constant word of the arena. If the value differs later, the arena is gone.
    mark: (u64, u64),
}

impl JemallocPlace {
    /// Finds the counters. `None` if there is no jemalloc whose arenas can be read.
    pub(crate) fn find(memory: &dyn Memory) -> Option<JemallocPlace> {
        let trees = rtree::find(memory);
        // Global variables point to each arena, and arenas lie in jemalloc's own blocks.
        let arenas = trees.iter().flat_map(|tree| {
            let blocks = metadata::blocks(memory, tree, &[]);
            // Only a walk finds out the release. The layout of a wrong release finds no arenas, so the one that finds most is used.
            let by_release = release::ALL.iter().map(|release| metadata::arenas(memory, tree, &blocks, release));
            let arenas = by_release.max_by_key(Vec::len).unwrap_or_default();
            arenas.into_iter().map(|arena| (arena, tree.shape.page))
        });
        let pages = arenas.filter_map(|(arena, page)| {
            Some(Pages { at: arena.pages, page, mark: (arena.mark, memory.word(arena.mark)?) })
        });
        let arenas: Vec<Pages> = pages.collect();
        (1..=MOST).contains(&arenas.len()).then_some(JemallocPlace { arenas })
    }

    /// Reads the present values. `None` if an arena is gone, or cannot be read.
    pub(crate) fn read(&self, source: &impl MemoryReader) -> Option<AllocatorCounters> {
        let mut active = 0_u64;
        for &Pages { at, page, mark: (mark, word) } in &self.arenas {
            if source.word(mark)? != word {
                return None;
            }
            active = active.checked_add(source.word(at)?.checked_mul(page)?)?;
        }
        Some(AllocatorCounters {
            arenas: self.arenas.len() as u64,
            active: Some(active),
            ..AllocatorCounters::default()
        })
    }
}
