//! The walk from the roots. In: the copy, its blocks, the roots. Out: which blocks are reached, and from where first.
//!
//! Breadth first, from one kind of roots after the other, so that what reaches a block is a shortest path from the best kind. The list of
//! blocks in the order in which they are met is the queue as well: nothing is recursive, and no block is in it twice.

use allocanary_heap::{Memory, MemoryCopy};

use crate::blocks::Blocks;
use crate::links::Links;
use crate::roots::Root;

/// What leads to a block first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// Nothing.
    Nothing,
    /// A root: the place of its address in [`Reach::roots`].
    Root(u32),
    /// Another block.
    Block(u32),
    /// It was reached in another reading, or has changed since.
    Unsure,
}

/// Marks in the list of parents.
const NOTHING: u32 = u32::MAX;
const ROOT: u32 = 1 << 31;
const UNSURE: u32 = u32::MAX - 1;

/// What is reached.
#[derive(Debug, Default)]
pub struct Reach {
    /// For each block what leads to it first.
    parents: Vec<u32>,
    /// The blocks in the order in which they are met.
    pub order: Vec<u32>,
    /// How many of them were followed.
    followed: usize,
    /// The addresses of roots that lead to a block first, and the root that each is in.
    pub roots: Vec<(u64, u32)>,
}

impl Reach {
    /// Walks from the roots. `links` tells words that hold nothing.
    pub fn of(copy: &MemoryCopy, blocks: &Blocks, roots: &[Root], links: &Links) -> Reach {
        let mut reach = Reach {
            parents: vec![NOTHING; blocks.len()],
            order: Vec::with_capacity(blocks.len()),
            roots: Vec::new(),
            followed: 0,
        };
        let mut kind = None;
        for (index, root) in (0..).zip(roots) {
            let this = std::mem::discriminant(&root.place);
            if kind.is_some_and(|kind| kind != this) {
                reach.go_on(copy, blocks, links);
            }
            kind = Some(this);
            let is_code = copy.mapping(root.from).is_some_and(|mapping| mapping.executable);
            if is_code {
                copy.each_place(root.from..root.to, |at, word| reach.root(blocks, links, index, at, word));
            } else {
                copy.each_word(root.from..root.to, |at, word| reach.root(blocks, links, index, at, word));
            }
            if let Some(word) = root.word {
                reach.root(blocks, links, index, 0, word);
            }
        }
        reach.go_on(copy, blocks, links);
        reach
    }

    fn root(&mut self, blocks: &Blocks, links: &Links, root: u32, at: u64, word: u64) {
        let Some(found) = blocks
            .find(word)
            .filter(|found| self.parents[*found as usize] == NOTHING && links.counts(blocks, *found, word))
        else {
            return;
        };
        self.parents[found as usize] = ROOT | (self.roots.len() as u32).min(ROOT - 2);
        self.roots.push((at, root));
        self.order.push(found);
    }

    /// Reaches a block from nowhere else, and all that it leads to.
    pub fn add(&mut self, copy: &MemoryCopy, blocks: &Blocks, block: u32, links: &Links) {
        if self.parents[block as usize] == NOTHING {
            self.parents[block as usize] = UNSURE;
            self.order.push(block);
            self.go_on(copy, blocks, links);
        }
    }

    /// Follows the blocks that are met and not yet followed.
    fn go_on(&mut self, copy: &MemoryCopy, blocks: &Blocks, links: &Links) {
        let mut next = self.followed;
        while let Some(&block) = self.order.get(next) {
            next += 1;
            each_pointer(copy, blocks, links, block, |_, to| {
                let parent = &mut self.parents[to as usize];
                if *parent == NOTHING {
                    *parent = block;
                    self.order.push(to);
                }
            });
        }
        self.followed = next;
    }

    /// What leads to a block first.
    pub fn from(&self, block: u32) -> From {
        match self.parents[block as usize] {
            NOTHING => From::Nothing,
            UNSURE => From::Unsure,
            root if root & ROOT != 0 => From::Root(root & !ROOT),
            block => From::Block(block),
        }
    }

    /// Whether a block is reached.
    pub fn has(&self, block: u32) -> bool {
        self.parents[block as usize] != NOTHING
    }
}

/// Visits the blocks that a block holds: the distance of the pointer from the block's beginning, and the block.
pub fn each_pointer(copy: &MemoryCopy, blocks: &Blocks, links: &Links, block: u32, mut visit: impl FnMut(u64, u32)) {
    let one = blocks.get(block);
    copy.each_word(one.at..one.at + one.bytes, |at, word| {
        if let Some(found) = blocks.find(word)
            && found != block
            && links.counts(blocks, found, word)
            && links.holds(block, at - one.at)
        {
            visit(at - one.at, found);
        }
    });
}
