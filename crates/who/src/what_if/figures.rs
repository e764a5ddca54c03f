//! The heap of a replay, from the addresses of its blocks: bytes of pages, including the pool's.

use std::ops::Range;

use allocanary_trace::placed::Placed;

use crate::ever::{Ever, PAGE};
use crate::pages::{Division, divide};
use crate::tally::LiveBlock;

/// The heap of one replay at the moment, including the pool's pages.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ReplayHeap {
    /// Bytes of the pages with a block.
    pub holding: u64,
    /// Resident bytes of these pages and of empty pages.
    pub resident: u64,
    /// Resident bytes of the pool.
    pub pool: u64,
    /// The number of live blocks.
    pub blocks: u64,
    /// Processor time of the replay, in microseconds.
    pub cpu: f64,
}

impl ReplayHeap {
    /// The heap by the addresses of a replay; `cpu` is its processor time in microseconds.
    pub fn of(placed: &Placed, cpu: f64) -> ReplayHeap {
        let block =
            |live: &allocanary_trace::replay::PlacedBlock| LiveBlock { address: live.address, size: live.size, of: 0 };
        let blocks: Vec<LiveBlock> = placed.blocks.iter().map(block).collect();
        let mut ever = Ever::default();
        placed.used.iter().for_each(|range| ever.add(range.start, range.end - range.start));
        let all = divide(&blocks, |_| Some(0), 1, &ever, Some(&placed.residents()), Division::Sites, PAGE);
        let within = |range: &Range<u64>, region: &Range<u64>| {
            range.end.min(region.end).saturating_sub(range.start.max(region.start))
        };
        let pool = |region: &Range<u64>| placed.resident.iter().map(|range| within(range, region)).sum();
        ReplayHeap {
            holding: all.holding,
            resident: all.resident(),
            pool: placed.region.as_ref().map_or(0, pool),
            blocks: blocks.len() as u64,
            cpu,
        }
    }
}

/// Replays of one trace, several for each of these three ways, in turn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ways {
    /// The unchanged replays.
    pub as_it_is: Vec<ReplayHeap>,
    /// With the site's survivors in the pool. Empty if the site has no live block at the moment.
    pub survivors: Vec<ReplayHeap>,
    /// With all blocks of the site in the pool.
    pub whole: Vec<ReplayHeap>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use allocanary_trace::replay::PlacedBlock;

    #[test]
    fn pages_of_the_pool_count_and_are_known_by_their_addresses() {
        let block = |slot, address, size| PlacedBlock { slot, address, size };
        let placed = Placed {
            // Three pages of the allocator, of which the last is empty and the second not resident; two of the pool.
            used: vec![16 * PAGE..19 * PAGE, 100 * PAGE..102 * PAGE],
            resident: vec![16 * PAGE..17 * PAGE, 18 * PAGE..19 * PAGE, 100 * PAGE..102 * PAGE],
            blocks: vec![block(0, 16 * PAGE + 8, 64), block(1, 100 * PAGE, 64), block(2, 101 * PAGE, 32)],
            region: Some(100 * PAGE..200 * PAGE),
        };
        let wanted = ReplayHeap { holding: 3 * PAGE, resident: 4 * PAGE, pool: 2 * PAGE, blocks: 3, cpu: 7.0 };
        assert_eq!(ReplayHeap::of(&placed, 7.0), wanted);
        assert_eq!(ReplayHeap::of(&Placed { region: None, ..placed }, 7.0).pool, 0);
    }
}
