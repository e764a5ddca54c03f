//! Synthetic events, stacks and pages, for tests.

use allocanary_trace::coder::AllocFunction;
use allocanary_trace::merge::{At, Sink};
use allocanary_trace::stacks::{StackId, StackNode, Stacks};

use crate::course::GrowthSpan;
use crate::moment::{MomentChoice, TracePoint};
use crate::tally::{BlockTally, EventTally, PackedBlock};

impl TracePoint {
    /// A moment by its time.
    pub fn at_time(nanos: u64) -> TracePoint {
        let marks = allocanary_trace::format::Marks { ready: None, peak: None, idle: None };
        TracePoint::of(Some(MomentChoice::At(nanos)), &marks, &[]).expect("a time").expect("is known")
    }
}

/// Events of one thread, and its live blocks.
pub struct Events(EventTally, Vec<Invented>);

/// A block, and its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invented(u64, PackedBlock);

impl Events {
    /// No events yet. `moment`: when the live blocks are counted. `length`: how long the trace is, in nanoseconds.
    pub fn new(moment: TracePoint, length: u64) -> Events {
        let span = (length > 0).then_some(GrowthSpan { from: length / 4, to: length - length / 10, words: "" });
        Events(EventTally::new(moment, false, span), Vec::new())
    }

    /// A block is made.
    pub fn new_block(&mut self, nanos: u64, stack: StackId, address: u64, size: u64) -> Invented {
        self.0.placed(address);
        self.0.stack(stack);
        let made = self.0.allocated(At { nanos, thread: 0 }, AllocFunction::Malloc, size);
        self.lives(address, made)
    }

    /// A block gets another size and place.
    pub fn resize(&mut self, nanos: u64, stack: StackId, block: Invented, address: u64, size: u64) -> Invented {
        self.0.placed(address);
        self.0.stack(stack);
        let made = self.leaves(block);
        let made = self.0.resized(At { nanos, thread: 0 }, made, size);
        self.lives(address, made)
    }

    /// A block ends.
    pub fn free(&mut self, nanos: u64, block: Invented) {
        let made = self.leaves(block);
        self.0.freed(At { nanos, thread: 0 }, made);
    }

    fn lives(&mut self, address: u64, made: PackedBlock) -> Invented {
        self.1.push(Invented(address, made));
        Invented(address, made)
    }

    fn leaves(&mut self, block: Invented) -> PackedBlock {
        self.1.retain(|lives| *lives != block);
        self.0.leaves(block.0);
        block.1
    }

    /// Ends the trace, and returns the totals.
    pub fn taken(mut self) -> BlockTally {
        for Invented(address, made) in self.1 {
            self.0.remains(address, made);
        }
        self.0.taken()
    }
}

/// Stacks without a module, by their return addresses, outermost first. Returns the number of each stack.
pub fn stacks(all: &[&[u64]]) -> (Stacks, Vec<StackId>) {
    let mut nodes = vec![StackNode::default()];
    let mut ids = Vec::new();
    for pcs in all {
        let mut parent = 0;
        for pc in *pcs {
            let node = StackNode { parent, pc: *pc, module: 0 };
            let known = nodes.iter().skip(1).position(|known| *known == node);
            parent = known.map_or(nodes.len(), |at| at + 1) as StackId;
            if known.is_none() {
                nodes.push(node);
            }
        }
        ids.push(parent);
    }
    (Stacks { nodes, modules: Vec::new() }, ids)
}
