//! Events, stacks and pages that are made up, for tests.

use allocanary_trace::coder::How;
use allocanary_trace::merge::{At, Sink};
use allocanary_trace::stacks::{Node, StackId, Stacks};

use crate::course::Span;
use crate::moment::{Moment, Wanted};
use crate::tally::{Taken, Tally};

impl Moment {
    /// A moment by its time.
    pub fn at_time(nanos: u64) -> Moment {
        let marks = allocanary_trace::format::Marks { ready: None, peak: None, idle: None };
        Moment::of(Some(Wanted::At(nanos)), &marks, &[]).expect("a time").expect("is known")
    }
}

/// Events of one thread.
pub struct Events(Tally);

impl Events {
    /// None yet; the blocks are taken at this moment of a trace of this length.
    pub fn new(moment: Moment, length: u64) -> Events {
        Events(Tally::new(
            moment,
            false,
            (length > 0).then_some(Span { from: length / 4, to: length - length / 10, words: "" }),
        ))
    }

    /// A block is made.
    pub fn new_block(&mut self, nanos: u64, stack: StackId, address: u64, size: u64) -> u32 {
        self.0.placed(address);
        self.0.stack(stack);
        self.0.allocated(At { nanos, thread: 0 }, How::Malloc, size)
    }

    /// A block gets another size and place.
    pub fn resize(&mut self, nanos: u64, stack: StackId, block: u32, address: u64, size: u64) -> u32 {
        self.0.placed(address);
        self.0.stack(stack);
        self.0.resized(At { nanos, thread: 0 }, block, size)
    }

    /// A block ends.
    pub fn free(&mut self, nanos: u64, block: u32) {
        self.0.freed(At { nanos, thread: 0 }, block);
    }

    /// What was counted.
    pub fn taken(self) -> Taken {
        self.0.taken()
    }
}

/// Stacks without a module, by their return addresses, outermost first. The first is stack 1, or the last of its frames.
pub fn stacks(all: &[&[u64]]) -> (Stacks, Vec<StackId>) {
    let mut nodes = vec![Node::default()];
    let mut ids = Vec::new();
    for pcs in all {
        let mut parent = 0;
        for pc in *pcs {
            let node = Node { parent, pc: *pc, module: 0 };
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
