//! jemalloc's own counters, without a walk: the pages in use of each arena.

use serde::{Deserialize, Serialize};

use super::{metadata, release, rtree};
use crate::counts::{AllocatorCounters, MemoryReader};
use crate::{Memory, PAGE};

/// Where they are. An arena that begins later is not among them until they are looked for again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JemallocPlace {
    arenas: Vec<Pages>,
}

/// Arenas of a machine with 256 processors, four of each. What a process shows beyond is not kept: it may show anything.
const MOST: usize = 1024;

/// An arena's counter of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Pages {
    /// Where it is.
    at: u64,
    /// A word of the arena that stays as it is, by which it is known again.
    mark: (u64, u64),
}

impl JemallocPlace {
    /// Looks for them. `None` if there is no jemalloc whose arenas are known here.
    pub(crate) fn find(memory: &dyn Memory) -> Option<JemallocPlace> {
        let trees = rtree::find(memory);
        // Global variables point to each arena, and arenas lie in jemalloc's own blocks.
        let arenas = trees.iter().flat_map(|tree| {
            let blocks = metadata::blocks(memory, tree, &[]);
            // Which release it is only a walk tells. By another one there are no arenas.
            let by_release = release::ALL.iter().map(|release| metadata::arenas(memory, tree, &blocks, release));
            by_release.max_by_key(Vec::len).unwrap_or_default()
        });
        let pages =
            arenas.filter_map(|arena| Some(Pages { at: arena.pages, mark: (arena.mark, memory.word(arena.mark)?) }));
        let arenas: Vec<Pages> = pages.collect();
        (1..=MOST).contains(&arenas.len()).then_some(JemallocPlace { arenas })
    }

    /// What they say now.
    pub(crate) fn read(&self, source: &impl MemoryReader) -> Option<AllocatorCounters> {
        let mut active = 0_u64;
        for &Pages { at, mark: (mark, word) } in &self.arenas {
            if source.word(mark)? != word {
                return None;
            }
            active = active.checked_add(source.word(at)?.checked_mul(PAGE)?)?;
        }
        Some(AllocatorCounters {
            arenas: self.arenas.len() as u64,
            active: Some(active),
            ..AllocatorCounters::default()
        })
    }
}
