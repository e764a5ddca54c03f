//! Estimates the heap if the blocks of a site were in a pool: finds the events that make these blocks, and has the figures of replays with
//! the pool.
//!
//! A block belongs to the site of its last `malloc` or `realloc`. The *survivors* are the site's blocks that are live at the moment:
//! none of them is freed before it. The *whole site* is all blocks of the site.

mod figures;
mod pick;

use std::collections::HashSet;

use allocanary_trace::coder::AllocFunction;
use allocanary_trace::error::Result;
use allocanary_trace::merge::{At, Sink, merge};
use allocanary_trace::prepare::Elsewhere;
use allocanary_trace::reader::Trace;
use allocanary_trace::stacks::StackId;

use crate::fold::By;
use crate::groups::StackGroups;
use crate::moment::TracePoint;
use crate::pages::Share;
use crate::sites::{AllocationSite, SiteReport};
use crate::tally::BlockTally;

pub use figures::{ReplayHeap, Ways};
pub use pick::{Miss, pick};

/// A site, and the heap with the site's blocks in a pool.
#[derive(Clone, Debug, PartialEq)]
pub struct WhatIf {
    /// The name of the program.
    pub program: String,
    /// The moment at which live blocks are examined.
    pub moment: TracePoint,
    /// The time of this moment, in nanoseconds after the start.
    pub nanos: u64,
    /// How allocations are grouped.
    pub by: By,
    /// The site in the recorded program. Sites of the same name in several modules are added up.
    pub site: AllocationSite,
    /// How its blocks share pages: in an unchanged replay, or in the program if there was no replay.
    pub share: Share,
    /// The replays, and the allocator as the user named it. The error says why there are none.
    pub replays: std::result::Result<(String, Ways), String>,
    /// The limits of the figures, a sentence each.
    pub notes: Vec<String>,
}

/// The site of this name. Sites of this name in several modules are added up.
pub fn named(found: &SiteReport, name: &str) -> AllocationSite {
    let mut all = AllocationSite { name: name.into(), ..AllocationSite::default() };
    for site in found.sites.iter().filter(|site| site.name == name) {
        all.allocations += site.allocations;
        all.bytes = all.bytes.saturating_add(site.bytes);
        all.short += site.short;
        all.short_bytes = all.short_bytes.saturating_add(site.short_bytes);
        all.blocks += site.blocks;
        all.live = all.live.saturating_add(site.live);
        let (sum, share) = (&mut all.share, &site.share);
        sum.live += share.live;
        sum.untouched += share.untouched;
        sum.pinned += share.pinned;
        sum.alone += share.alone;
        sum.with_holes += share.with_holes;
    }
    all
}

/// The stacks of a site. They include 0 if the site is the one without a stack.
pub fn stacks(taken: &BlockTally, groups: &StackGroups, name: &str) -> HashSet<StackId> {
    let is_site = |site: &Option<usize>| site.is_some_and(|site| groups.sites[site].0 == name);
    let stacks = taken.totals.iter().zip(&groups.of).filter(|(_, site)| is_site(site));
    stacks.map(|(totals, _)| totals.key).collect()
}

/// The events that make blocks of a site.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sets {
    /// Blocks that are live after the given number of events.
    pub survivors: Elsewhere,
    /// All blocks.
    pub whole: Elsewhere,
}

/// Finds the blocks of these stacks. Survivors are live after `events` events, where a replay stops.
pub fn sets(trace: &Trace, stacks: HashSet<StackId>, events: u64) -> Result<Sets> {
    let mut sink = Marking { stacks, until: events, stack: 0, events: 0, sets: Sets::default() };
    merge(trace, &mut sink)?;
    Ok(sink.sets)
}

/// Counts events in the same way as the prepared form of a trace, so that the numbers fit a replay.
struct Marking {
    stacks: HashSet<StackId>,
    until: u64,
    /// The stack of the next block.
    stack: StackId,
    events: u64,
    sets: Sets,
}

impl Marking {
    fn made(&mut self) -> Option<u64> {
        let event = self.events;
        self.events += 1;
        let is_site = self.stacks.contains(&std::mem::take(&mut self.stack));
        if is_site {
            self.sets.whole.add(event);
            if event < self.until {
                self.sets.survivors.add(event);
            }
        }
        is_site.then_some(event)
    }

    /// The present event ends the block of an earlier event.
    fn ends(&mut self, made_by: Option<u64>) {
        if let Some(event) = made_by.filter(|_| self.events < self.until) {
            self.sets.survivors.remove(event);
        }
    }
}

impl Sink for Marking {
    /// The event that made the block, if it is the site's.
    type Block = Option<u64>;

    fn stack(&mut self, stack: StackId) {
        self.stack = stack;
    }

    fn allocated(&mut self, _: At, _: AllocFunction, _: u64) -> Option<u64> {
        self.made()
    }

    fn freed(&mut self, _: At, block: Option<u64>) {
        self.ends(block);
        self.events += 1;
    }

    fn resized(&mut self, _: At, block: Option<u64>, _: u64) -> Option<u64> {
        self.ends(block);
        self.made()
    }
}

#[cfg(test)]
mod tests;
