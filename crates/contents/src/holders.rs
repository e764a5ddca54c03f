//! Finds what holds the blocks: for each holder, the blocks that it reaches first, and those that only it reaches.
//!
//! A holder is a global variable, a thread's own variables, its stack, its registers, or other memory. It has two figures:
//!
//! - *holds*: the blocks whose shortest path begins at it. Each block has one holder, so these figures add up.
//! - *alone*: the blocks that no other variable leads to. They would be freed with it. Stacks and registers do not count, because their
//!   content soon changes. A tree of dominators has the same figure in the first level below all roots. Here it is computed by colours: a
//!   block has its holder's colour until another holder reaches it, and so changes its colour at most twice.

use std::collections::HashMap;

use crate::blocks::Blocks;
use crate::kinds::TypedBlocks;
use crate::links::Links;
use crate::modules::{ModuleList, Open};
use crate::paths::Paths;
use crate::reach::{From, Reach, each_pointer};
use crate::roots::{KernelHolder, RootKind};

/// The name of the row for blocks that have no holder.
pub const LIKENESS: &str = "only bytes that look like a pointer";

/// A holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HolderKey {
    /// A variable of a Python module, by its index.
    Python(u32),
    /// A variable, by its first address. Without a symbol, one word counts as a variable.
    Variable(u64),
    /// The variables of a thread, by the index of the thread.
    ThreadLocal(u32),
    /// The stack of a thread, by the index of the thread.
    Stack(u32),
    /// The registers of a thread, by the index of the thread.
    Registers(u32),
    /// The kernel.
    Kernel(KernelHolder),
    /// Other memory, by the index of the mapping.
    Mapping(u32),
    /// A path in another reading only.
    Unsure,
    /// No holder: only data that looks like a pointer.
    Likeness,
}

/// The figures of a holder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HolderSum {
    /// The number of blocks that it holds.
    pub blocks: u64,
    /// The bytes of these blocks.
    pub bytes: u64,
    /// The number of blocks that only it leads to.
    pub alone_blocks: u64,
    /// The bytes of these blocks.
    pub alone_bytes: u64,
}

/// All holders.
pub struct Holders {
    /// The holders, in the order in which the walk met them.
    pub all: Vec<(HolderKey, HolderSum)>,
    /// For each block, whether a variable points to it.
    pub entries: Vec<bool>,
    known: HashMap<HolderKey, u32>,
}

/// The colours of a block that no holder leads to, and of a block that several lead to.
const NONE: u32 = u32::MAX;
const SEVERAL: u32 = u32::MAX - 1;

impl Holders {
    /// Finds the holders, and the paths from each to its blocks.
    pub fn of(
        heap: &TypedBlocks,
        reach: &Reach,
        open: &Open,
        links: &Links,
        kind: &dyn Fn(u32) -> u32,
    ) -> (Holders, Paths) {
        let mut holders = Holders { all: Vec::new(), entries: vec![false; heap.blocks.len()], known: HashMap::new() };
        let mut paths = Paths::new(heap.blocks.len());
        for &block in &reach.order {
            let place = match reach.from(block) {
                From::Block(parent) => {
                    paths.below(parent, block, kind(block), || offset(heap, parent, block, links));
                    paths.holder(block)
                }
                From::Root(root) => {
                    let (at, root) = reach.roots[root as usize];
                    let (key, offset) = key(heap.modules, heap.roots[root as usize].place, at, open);
                    let holder = holders.place(key);
                    paths.begin(holder, block, kind(block), offset);
                    holder
                }
                from @ (From::Unsure | From::Nothing | From::Likeness) => {
                    let is_alike = from == From::Likeness;
                    let holder = holders.place(if is_alike { HolderKey::Likeness } else { HolderKey::Unsure });
                    paths.begin(holder, block, kind(block), 0);
                    holder
                }
            };
            let sum = &mut holders.all[place as usize].1;
            sum.blocks += 1;
            sum.bytes += heap.blocks.get(block).bytes;
            paths.count(block, heap.blocks.get(block).bytes);
        }
        holders.colour(heap, open, links);
        (holders, paths)
    }

    fn place(&mut self, key: HolderKey) -> u32 {
        *self.known.entry(key).or_insert_with(|| {
            self.all.push((key, HolderSum::default()));
            self.all.len() as u32 - 1
        })
    }

    /// Computes which blocks only one holder leads to.
    fn colour(&mut self, heap: &TypedBlocks, open: &Open, links: &Links) {
        let mut colours = vec![NONE; heap.blocks.len()];
        let mut queue: Vec<u32> = Vec::new();
        let fleeting = |place: &RootKind| matches!(place, RootKind::Stack(_) | RootKind::Registers(_));
        for root in heap.roots.iter().filter(|root| !fleeting(&root.place)) {
            let mut last: Option<(u64, u64, u32)> = None;
            if let Some(word) = root.word
                && let Some(block) = heap.blocks.find(word)
            {
                let colour = self.place(key(heap.modules, root.place, 0, open).0);
                self.entries[block as usize] = true;
                join(&mut colours, &mut queue, block, colour);
            }
            heap.copy.each_word(root.from..root.to, |at, word| {
                let Some(block) = heap.blocks.find(word).filter(|block| links.counts(heap.blocks, *block, word)) else {
                    return;
                };
                let colour = match (root.place, last) {
                    (RootKind::Global(_), Some((from, to, colour))) if from <= at && at < to => colour,
                    _ => {
                        let (key, offset) = key(heap.modules, root.place, at, open);
                        let colour = self.place(key);
                        last = Some((at - offset, at + 1, colour));
                        colour
                    }
                };
                self.entries[block as usize] = true;
                join(&mut colours, &mut queue, block, colour);
            });
            flow(heap.blocks, heap, &mut colours, &mut queue, links);
        }
        for (index, block) in heap.blocks.iter() {
            if let Some((_, sum)) = self.all.get_mut(colours[index as usize] as usize) {
                sum.alone_blocks += 1;
                sum.alone_bytes += block.bytes;
            }
        }
    }
}

fn join(colours: &mut [u32], queue: &mut Vec<u32>, block: u32, colour: u32) {
    let has = &mut colours[block as usize];
    let next = match *has {
        NONE => colour,
        same if same == colour => same,
        _ => SEVERAL,
    };
    if next != *has {
        *has = next;
        queue.push(block);
    }
}

fn flow(blocks: &Blocks, heap: &TypedBlocks, colours: &mut [u32], queue: &mut Vec<u32>, links: &Links) {
    while let Some(block) = queue.pop() {
        let colour = colours[block as usize];
        each_pointer(heap.copy, blocks, links, block, |_, to| join(colours, queue, to, colour));
    }
}

/// The holder of the root at an address, and the distance from the holder's beginning.
pub fn key(modules: &ModuleList, place: RootKind, at: u64, open: &Open) -> (HolderKey, u64) {
    match place {
        RootKind::Global(_) => match modules.bounds(at, open) {
            Some((from, _)) => (HolderKey::Variable(from), at.wrapping_sub(from)),
            None => (HolderKey::Variable(at), 0),
        },
        RootKind::Python(index) => (HolderKey::Python(index), 0),
        RootKind::ThreadLocal(thread) => (HolderKey::ThreadLocal(thread), 0),
        RootKind::Stack(thread) => (HolderKey::Stack(thread), 0),
        RootKind::Registers(thread) => (HolderKey::Registers(thread), 0),
        RootKind::Kernel(what) => (HolderKey::Kernel(what), 0),
        RootKind::Mapping(mapping) => (HolderKey::Mapping(mapping), 0),
    }
}

/// The offset in a block of its first pointer to another one.
fn offset(heap: &TypedBlocks, parent: u32, block: u32, links: &Links) -> u64 {
    let mut found = None;
    each_pointer(heap.copy, heap.blocks, links, parent, |at, to| {
        if to == block && found.is_none() {
            found = Some(at);
        }
    });
    found.unwrap_or(0)
}
