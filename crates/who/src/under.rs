//! Computes the totals of a trace with the addresses that its blocks have in a replay under another allocator.
//!
//! A replay identifies a block by its slot. Slots follow from the merged order of the events, so a second reading of the trace gives the
//! same slots. Each live block gets its site from the trace and its address from the replay.

use allocanary_trace::coder::AllocFunction;
use allocanary_trace::error::{Error, Result};
use allocanary_trace::merge::{At, Sink, merge};
use allocanary_trace::placed::Placed;
use allocanary_trace::prepare::FreeSlots;
use allocanary_trace::reader::Trace;
use allocanary_trace::stacks::{Resident, StackId};

use crate::course::GrowthSpan;
use crate::ever::Ever;
use crate::moment::TracePoint;
use crate::sites::SiteReport;
use crate::tally::{BlockTally, EventTally, PackedBlock};

/// The result under another allocator.
#[derive(Clone, Debug, PartialEq)]
pub struct Under {
    /// As the user named it: `jemalloc:narenas=1`.
    pub candidate: String,
    /// Its sites and pages.
    pub found: SiteReport,
}

/// The blocks that are live after this many events, at their addresses in the replay that stopped there, and the pages that were resident
/// in the replay.
pub fn take(
    trace: &Trace,
    moment: &TracePoint,
    events: u64,
    by_thread: bool,
    placed: &Placed,
) -> Result<(BlockTally, Resident)> {
    let tally = EventTally::new(moment.behind(events), by_thread, GrowthSpan::of(trace));
    let mut slotted = Slotted { tally, slots: FreeSlots::default() };
    merge(trace, &mut slotted)?;
    let mut taken = BlockTally { one_stack_in: trace.header.stacks.max(1), ..slotted.tally.taken() };
    put(&mut taken, placed).map_err(|error| Error::new(format!("{}: {error}", trace.path().display())))?;
    Ok((taken, placed.residents()))
}

/// Replaces the address of each block, which is its slot, by the address in the replay.
fn put(taken: &mut BlockTally, placed: &Placed) -> std::result::Result<(), String> {
    let (wanted, found) = (taken.blocks.len(), placed.blocks.len());
    if wanted != found {
        return Err(format!("wanted a replay of {wanted} live blocks at this moment, found one of {found}"));
    }
    for block in &mut taken.blocks {
        let lies = u32::try_from(block.address).ok().and_then(|slot| placed.block(slot));
        // The replay requests one byte for a block of 0 bytes, and at least the alignment for a resized block.
        let is_that = |size: u64| (block.size..=block.size.max(16)).contains(&size);
        let Some(lies) = lies.filter(|lies| is_that(lies.size)) else {
            let (size, slot) = (block.size, block.address);
            return Err(format!("wanted a block of {size} bytes in slot {slot} of the replay, found {lies:?}"));
        };
        block.address = lies.address;
    }
    taken.ever = Ever::default();
    placed.used.iter().for_each(|range| taken.ever.add(range.start, range.end - range.start));
    Ok(())
}

/// Counts events. The address of a block is its slot.
struct Slotted {
    tally: EventTally,
    slots: FreeSlots,
}

impl Sink for Slotted {
    /// The tally's record, and the slot.
    type Block = (PackedBlock, u32);

    fn stack(&mut self, stack: StackId) {
        self.tally.stack(stack);
    }

    fn allocated(&mut self, at: At, how: AllocFunction, size: u64) -> (PackedBlock, u32) {
        let (slot, _) = self.slots.take(at.thread);
        self.tally.placed(u64::from(slot));
        (self.tally.allocated(at, how, size), slot)
    }

    fn freed(&mut self, at: At, (block, slot): (PackedBlock, u32)) {
        self.slots.release(at.thread, slot);
        self.tally.leaves(u64::from(slot));
        self.tally.freed(at, block);
    }

    fn resized(&mut self, at: At, (block, slot): (PackedBlock, u32), size: u64) -> (PackedBlock, u32) {
        self.slots.again(slot);
        self.tally.placed(u64::from(slot));
        self.tally.leaves(u64::from(slot));
        (self.tally.resized(at, block, size), slot)
    }

    fn ended(&mut self, at: At) {
        self.slots.end(at.thread);
    }

    fn remains(&mut self, _: u64, (block, slot): (PackedBlock, u32)) {
        self.tally.remains(u64::from(slot), block);
    }
}

#[cfg(test)]
mod tests;
