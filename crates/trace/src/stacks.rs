//! The stacks of a trace, as plain data. In: the recorder's tables. Out: the frames of an allocation, and the file and build of each frame.

use crate::format::{MOST_NODES, TraceEnd};

/// The number of a node. 0 means that there is no stack: it was not recorded, or could not be walked.
pub type StackId = u32;

/// One frame of a stack. Stacks with the same outermost frames share the nodes of these frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StackNode {
    /// The caller's frame; 0 for the outermost frame.
    pub parent: StackId,
    /// The return address, as it was in the process.
    pub pc: u64,
    /// The module that had the address at that time, as a number from 1 on in the order of [`Stacks::modules`]. 0 means that there was
    /// none, or that it is not in the trace.
    pub module: u32,
}

/// A place in the code of a process. Two libraries may have had the same addresses at different times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CodePlace {
    /// The return address.
    pub pc: u64,
    /// See [`StackNode::module`].
    pub module: u32,
}

/// A mapped file with code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceModule {
    /// The first address of the mapping.
    pub start: u64,
    /// The address after the last one.
    pub end: u64,
    /// An address in the process minus the address of the same byte in the file's symbols.
    pub bias: u64,
    /// The path at which it was mapped.
    pub path: String,
    /// Its build-id; empty if it has none.
    pub build_id: Vec<u8>,
}

/// All stacks of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stacks {
    /// Node 0 is the root, and is not a frame.
    pub nodes: Vec<StackNode>,
    /// The modules in the order of their first frames. Two of them may have had the same addresses at different times.
    pub modules: Vec<TraceModule>,
}

/// The limit that was reached when stacks had no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRoom {
    /// The disk.
    Disk,
    /// The format's number of nodes.
    Format,
    /// The maximum size of the file. Tables may have only a part of it.
    Limit,
}

impl NoRoom {
    /// Finds the limit that was reached. `state` is the state of the trace at its end, and `nodes` the number of its nodes, including the
    /// root.
    pub fn of(state: TraceEnd, nodes: usize) -> NoRoom {
        match state {
            TraceEnd::NoRoom => NoRoom::Disk,
            _ if nodes + 1 >= MOST_NODES => NoRoom::Format,
            _ => NoRoom::Limit,
        }
    }
}

impl Stacks {
    /// The return addresses of a stack, innermost first. A damaged table ends the walk.
    pub fn frames(&self, stack: StackId) -> impl Iterator<Item = CodePlace> + '_ {
        let mut next = stack;
        std::iter::from_fn(move || {
            let node = *self.nodes.get(next as usize).filter(|_| next != 0)?;
            // A parent is written before its children, so that its number is lower.
            next = if node.parent < next { node.parent } else { 0 };
            Some(CodePlace { pc: node.pc, module: node.module })
        })
    }

    /// The index of the code's module. If the node names no module, this is the last module that had the address.
    pub fn module_of(&self, code: CodePlace) -> Option<usize> {
        // The call is before the return address, which may already be in another file.
        let call = code.pc.saturating_sub(1);
        let contains = |module: &TraceModule| (module.start..module.end).contains(&call);
        let named = (code.module as usize).checked_sub(1).filter(|at| self.modules.get(*at).is_some_and(contains));
        named.or_else(|| self.modules.iter().rposition(contains))
    }
}

/// The pages of private memory without a file that were resident at a mark.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resident {
    /// The mark: 0 ready, 1 peak, 2 idle, 3 the end of the recording.
    pub mark: u8,
    /// Ranges of addresses, sorted, without the recorder's own memory.
    pub ranges: Vec<std::ops::Range<u64>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_told_innermost_first_and_a_damaged_table_ends() {
        let node = |parent, pc| StackNode { parent, pc, module: 0 };
        let frames = |stacks: &Stacks, of| stacks.frames(of).map(|code| code.pc).collect::<Vec<_>>();
        let stacks =
            Stacks { nodes: vec![node(0, 0), node(0, 10), node(1, 20), node(9, 30), node(4, 40)], modules: Vec::new() };
        assert_eq!(frames(&stacks, 2), [20, 10]);
        assert_eq!(stacks.frames(0).count(), 0);
        assert_eq!(frames(&stacks, 3), [30], "a parent that is not there");
        assert_eq!(frames(&stacks, 4), [40], "a node that is its own parent");
    }

    #[test]
    fn what_was_too_small_is_told_by_the_state_and_the_number_of_nodes() {
        // Nodes have the numbers 0 to MOST_NODES - 1. A thread may have lost a number.
        assert_eq!(NoRoom::of(TraceEnd::Exited, MOST_NODES - 1), NoRoom::Format);
        assert_eq!(NoRoom::of(TraceEnd::Exited, MOST_NODES - 2), NoRoom::Limit);
        assert_eq!(NoRoom::of(TraceEnd::NoRoom, MOST_NODES - 1), NoRoom::Disk);
    }

    #[test]
    fn of_two_modules_at_the_same_place_the_node_names_its_own() {
        let module = |path: &str| TraceModule { start: 100, end: 200, path: path.into(), ..TraceModule::default() };
        let stacks = Stacks { nodes: Vec::new(), modules: vec![module("old"), module("new")] };
        let of = |pc, module| stacks.module_of(CodePlace { pc, module });
        assert_eq!([of(150, 1), of(150, 2)], [Some(0), Some(1)]);
        assert_eq!(of(150, 0), Some(1), "the node names none: the later one");
        assert_eq!([of(200, 1), of(100, 1), of(201, 1), of(150, 9)], [Some(0), None, None, Some(1)]);
    }
}
