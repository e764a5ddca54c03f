//! jemalloc's own counters, without a walk: the pages in use of each arena.

use serde::{Deserialize, Serialize};

use super::{metadata, rtree};
use crate::counters::{Counters, Source};
use crate::{Memory, PAGE};

/// Where they are. An arena that begins later is not among them until they are looked for again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The part of each arena that counts pages, and its first word, by which it is known again.
    shards: Vec<(u64, u64)>,
}

impl Place {
    /// Looks for them. `None` if there is no jemalloc whose arenas are known here.
    pub(crate) fn find(memory: &dyn Memory) -> Option<Place> {
        let trees = rtree::find(memory);
        // Global variables point to each arena, and arenas lie in jemalloc's own blocks.
        let shards = trees.iter().flat_map(|tree| {
            let blocks = metadata::blocks(memory, tree, &[]);
            metadata::arenas(memory, tree, &blocks).into_iter().map(|arena| arena.shard)
        });
        let shards: Vec<(u64, u64)> = shards.filter_map(|at| Some((at, memory.word(at)?))).collect();
        (!shards.is_empty()).then_some(Place { shards })
    }

    /// What they say now.
    pub(crate) fn read(&self, source: &impl Source) -> Option<Counters> {
        let mut active = 0_u64;
        for &(at, first) in &self.shards {
            let mut bytes = [0; 16];
            if !source.copy(at, &mut bytes) {
                return None;
            }
            let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("a word has eight bytes"));
            if word(0) != first {
                return None;
            }
            active = active.checked_add(word(8).checked_mul(PAGE)?)?;
        }
        Some(Counters { arenas: self.shards.len() as u64, active: Some(active), ..Counters::default() })
    }
}
