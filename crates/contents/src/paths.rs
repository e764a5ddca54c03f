//! Groups the paths from holders to blocks by kind. The result is a tree for each holder, whose nodes are kinds: `server` → pointer array →
//! struct → text.
//!
//! A kind that is already in the path is not added again: so a list of a million nodes is one node of the tree.

use std::collections::HashMap;

/// The greatest depth of a tree, and the most nodes of all trees. Deeper blocks count for the node above.
const DEEPEST: u32 = 10;
const MOST: usize = 1 << 18;
const NONE: u32 = u32::MAX;

/// A node of a tree.
#[derive(Clone, Copy, Debug)]
pub struct PathNode {
    /// The node above; `NONE` for a holder's node.
    above: u32,
    /// The index of the holder.
    pub holder: u32,
    /// The kind; `NONE` for a holder's node.
    kind: u32,
    /// The depth: 1 for blocks that the holder points to.
    depth: u32,
    /// The offset of the pointer to the first of these blocks.
    offset: u64,
    /// The number of its blocks.
    blocks: u64,
    /// The bytes of these blocks.
    bytes: u64,
}

/// The trees of all holders.
pub struct Paths {
    nodes: Vec<PathNode>,
    known: HashMap<(u32, u32), u32>,
    /// The first node of each holder.
    holders: HashMap<u32, u32>,
    of: Vec<u32>,
}

/// A line of a tree that is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeRow {
    /// The depth: 0 for blocks that the holder points to.
    pub depth: u32,
    /// The offset of the pointer to the first of these blocks, from the beginning of the block or holder above.
    pub offset: u64,
    /// The number of the kind.
    pub kind: u32,
    /// The number of its blocks.
    pub blocks: u64,
    /// The bytes of these blocks.
    pub bytes: u64,
    /// Bytes of these blocks and of all below.
    pub with_all: u64,
}

impl Paths {
    /// Starts without a path, for this number of blocks.
    pub fn new(blocks: usize) -> Paths {
        Paths { nodes: Vec::new(), known: HashMap::new(), holders: HashMap::new(), of: vec![NONE; blocks] }
    }

    /// Adds a block that a holder points to.
    pub fn begin(&mut self, holder: u32, block: u32, kind: u32, offset: u64) {
        let first = *self.holders.entry(holder).or_insert_with(|| {
            self.nodes.push(PathNode { above: NONE, holder, kind: NONE, depth: 0, offset: 0, blocks: 0, bytes: 0 });
            self.nodes.len() as u32 - 1
        });
        self.of[block as usize] = self.child(first, kind, || offset);
    }

    /// Adds a block that another block points to, which was added before.
    pub fn below(&mut self, parent: u32, block: u32, kind: u32, offset: impl FnOnce() -> u64) {
        let above = self.of[parent as usize];
        self.of[block as usize] = self.child(above, kind, offset);
    }

    fn child(&mut self, above: u32, kind: u32, offset: impl FnOnce() -> u64) -> u32 {
        let mut at = above;
        while let Some(node) = self.nodes.get(at as usize) {
            if node.kind == kind {
                return at;
            }
            at = node.above;
        }
        let PathNode { holder, depth, .. } = self.nodes[above as usize];
        if let Some(known) = self.known.get(&(above, kind)) {
            return *known;
        }
        if depth >= DEEPEST || self.nodes.len() >= MOST && depth > 0 {
            return above;
        }
        let number = self.nodes.len() as u32;
        self.nodes.push(PathNode { above, holder, kind, depth: depth + 1, offset: offset(), blocks: 0, bytes: 0 });
        self.known.insert((above, kind), number);
        number
    }

    /// Counts a block that was added before.
    pub fn count(&mut self, block: u32, bytes: u64) {
        let node = &mut self.nodes[self.of[block as usize] as usize];
        node.blocks += 1;
        node.bytes += bytes;
    }

    /// The holder of a block that was added before.
    pub fn holder(&self, block: u32) -> u32 {
        self.nodes[self.of[block as usize] as usize].holder
    }

    /// The trees of these holders, from the top. A line has at least 1 / `part` of the holder's bytes, and a tree has at most `most` lines.
    pub fn trees(&self, holders: &[u32], part: u64, most: usize) -> Vec<Vec<TreeRow>> {
        let mut with_all: Vec<u64> = self.nodes.iter().map(|node| node.bytes).collect();
        // Each node comes after the node above it.
        for (at, node) in self.nodes.iter().enumerate().rev() {
            if node.above != NONE {
                with_all[node.above as usize] += with_all[at];
            }
        }
        let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
        for (at, node) in (0..).zip(&self.nodes) {
            let first = self.holders.get(&node.holder).copied().unwrap_or(NONE);
            let whole = with_all.get(first as usize).copied().unwrap_or(0);
            if node.above != NONE && with_all[at as usize].saturating_mul(part) >= whole {
                children.entry(node.above).or_default().push(at);
            }
        }
        children.values_mut().for_each(|all| all.sort_by_key(|at| (std::cmp::Reverse(with_all[*at as usize]), *at)));
        let tree = |holder: &u32| {
            let mut lines = Vec::new();
            let below = |at: u32| children.get(&at).into_iter().flatten().rev().copied();
            let mut stack: Vec<u32> = self.holders.get(holder).into_iter().flat_map(|first| below(*first)).collect();
            while let Some(at) = stack.pop().filter(|_| lines.len() < most) {
                let node = self.nodes[at as usize];
                lines.push(TreeRow {
                    depth: node.depth - 1,
                    offset: node.offset,
                    kind: node.kind,
                    blocks: node.blocks,
                    bytes: node.bytes,
                    with_all: with_all[at as usize],
                });
                stack.extend(below(at));
            }
            lines
        };
        holders.iter().map(tree).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_one_node_and_bytes_add_up() {
        let mut paths = Paths::new(1002);
        paths.begin(0, 0, 7, 0x40);
        for block in 1..1000 {
            paths.below(block - 1, block, 7, || 0);
        }
        paths.below(5, 1000, 8, || 16);
        // Back to the kind of the list: it is the list's.
        paths.below(1000, 1001, 7, || 0);
        (0..1002).for_each(|block| paths.count(block, 10));
        let trees = paths.trees(&[0], 2000, 10);
        let of = |line: &TreeRow| (line.depth, line.offset, line.kind, line.blocks, line.with_all);
        assert_eq!(trees[0].iter().map(of).collect::<Vec<_>>(), [(0, 0x40, 7, 1001, 10020), (1, 16, 8, 1, 10)]);
        assert_eq!(paths.trees(&[0], 2, 10)[0].len(), 1, "what is small is left out");
        assert_eq!(paths.holder(1001), 0);
    }

    #[test]
    fn a_deep_tree_ends() {
        let mut paths = Paths::new(100);
        paths.begin(0, 0, 0, 0);
        (1..100).for_each(|block| paths.below(block - 1, block, block, || 0));
        (0..100).for_each(|block| paths.count(block, 1));
        let lines = &paths.trees(&[0], 1000, 1000)[0];
        assert_eq!((lines.len(), lines[0].with_all, lines.last().unwrap().blocks), (DEEPEST as usize, 100, 91));
    }
}
