//! Follows pointers from the roots, and finds which blocks are reached, and from which place first.
//!
//! The walk is breadth first, from one kind of roots after the other. So the first path to a block is a shortest one from the best kind of
//! roots. The list of blocks in the order in which they are met is also the queue: nothing is recursive, and no block is in it twice.

use allocanary_heap::{Memory, MemoryCopy};

use crate::blocks::Blocks;
use crate::links::Links;
use crate::roots::Root;

/// The place that first leads to a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// Nothing.
    Nothing,
    /// A root: the index of its address in [`Reach::roots`].
    Root(u32),
    /// Another block.
    Block(u32),
    /// No place in this reading: the block was reached in another reading, or has changed since.
    Unsure,
    /// Only data that looks like a pointer.
    Likeness,
}

/// Special values in the list of parents.
const NOTHING: u32 = u32::MAX;
const ROOT: u32 = 1 << 31;
const UNSURE: u32 = u32::MAX - 1;
const LIKENESS: u32 = u32::MAX - 2;

/// The blocks that are reached.
#[derive(Debug, Default)]
pub struct Reach {
    /// For each block, what leads to it first.
    parents: Vec<u32>,
    /// The blocks in the order in which the walk met them.
    pub order: Vec<u32>,
    /// The number of blocks of `order`, from the first one on, that were followed. The second number is for their data words.
    followed: usize,
    looked: usize,
    /// The addresses in roots that lead to a block first, each with the index of its root.
    pub roots: Vec<(u64, u32)>,
}

impl Reach {
    /// Walks from the roots. `links` says which words hold nothing.
    pub fn of(copy: &MemoryCopy, blocks: &Blocks, roots: &[Root], links: &Links) -> Reach {
        let mut reach = Reach {
            parents: vec![NOTHING; blocks.len()],
            order: Vec::with_capacity(blocks.len()),
            roots: Vec::new(),
            followed: 0,
            looked: 0,
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
        reach.look_alike(copy, blocks, links);
        reach
    }

    fn root(&mut self, blocks: &Blocks, links: &Links, root: u32, at: u64, word: u64) {
        let Some(found) = blocks
            .find(word)
            .filter(|found| self.parents[*found as usize] == NOTHING && links.counts(blocks, *found, word))
        else {
            return;
        };
        self.parents[found as usize] = ROOT | (self.roots.len() as u32).min(ROOT - 4);
        self.roots.push((at, root));
        self.order.push(found);
    }

    /// Adds a block that nothing reaches, as unsure, and all blocks to which it leads.
    pub fn add(&mut self, copy: &MemoryCopy, blocks: &Blocks, block: u32, links: &Links) {
        if self.parents[block as usize] == NOTHING {
            self.parents[block as usize] = UNSURE;
            self.order.push(block);
            self.go_on(copy, blocks, links);
            self.look_alike(copy, blocks, links);
        }
    }

    /// Follows the blocks that were met and not yet followed.
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

    /// Adds the blocks to which only data leads. Call it after all held blocks were reached.
    fn look_alike(&mut self, copy: &MemoryCopy, blocks: &Blocks, links: &Links) {
        while let Some(&block) = self.order.get(self.looked) {
            self.looked += 1;
            if !links.data.is_ruled(block) {
                continue;
            }
            each_likeness(copy, blocks, links, block, |to| {
                let parent = &mut self.parents[to as usize];
                if *parent == NOTHING {
                    *parent = LIKENESS;
                    self.order.push(to);
                }
            });
            self.go_on(copy, blocks, links);
        }
    }

    /// Repeats the walk with the data words that are known now. Blocks that only another reading reached stay reached.
    pub fn again(&self, copy: &MemoryCopy, blocks: &Blocks, roots: &[Root], links: &Links) -> Reach {
        let mut reach = Reach::of(copy, blocks, roots, links);
        self.order.iter().for_each(|block| reach.add(copy, blocks, *block, links));
        reach
    }

    /// The place that first leads to a block.
    pub fn from(&self, block: u32) -> From {
        match self.parents[block as usize] {
            NOTHING => From::Nothing,
            UNSURE => From::Unsure,
            LIKENESS => From::Likeness,
            root if root & ROOT != 0 => From::Root(root & !ROOT),
            block => From::Block(block),
        }
    }

    /// Whether a block is reached.
    pub fn has(&self, block: u32) -> bool {
        self.parents[block as usize] != NOTHING
    }
}

/// Visits the blocks that a block holds. `visit` gets the offset of the pointer, and the block.
pub fn each_pointer(copy: &MemoryCopy, blocks: &Blocks, links: &Links, block: u32, mut visit: impl FnMut(u64, u32)) {
    each_found(copy, blocks, links, block, |at, found| {
        if links.holds(block, at) {
            visit(at, found);
        }
    });
}

/// Visits the blocks to which data of a block seems to point.
fn each_likeness(copy: &MemoryCopy, blocks: &Blocks, links: &Links, block: u32, mut visit: impl FnMut(u32)) {
    each_found(copy, blocks, links, block, |at, found| {
        if links.data.has(block, at) && links.may_hold(block, at) {
            visit(found);
        }
    });
}

/// Visits the other blocks that a block's words lead to.
#[inline]
pub fn each_found(copy: &MemoryCopy, blocks: &Blocks, links: &Links, block: u32, mut visit: impl FnMut(u64, u32)) {
    let one = blocks.get(block);
    copy.each_word(one.at..one.at + one.bytes, |at, word| {
        if let Some(found) = blocks.find(word)
            && found != block
            && links.counts(blocks, found, word)
        {
            visit(at - one.at, found);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::DataRule;
    use crate::made::{FakeHeap, blocks, globals};

    const GLOBALS: u64 = 0x10_0000;
    const HEAP: u64 = 0x1_0000_0000;

    /// A global variable has block 0, whose second word is data. It seems to lead to 1, which has 2; 0 holds 3, and seems to lead to it too.
    fn made() -> (FakeHeap, Blocks, Links) {
        let mut made = FakeHeap::of(&[(GLOBALS, 4096), (HEAP, 4096)]);
        made.put(GLOBALS + 8, &[HEAP]);
        let at = |block: u64| HEAP + 32 * block;
        made.put(at(0), &[at(3), at(1), at(3)]);
        made.put(at(1), &[0, at(2)]);
        let blocks = blocks((0..5).map(|block| (at(block), 32)));
        let mut links = Links::default();
        links.data.set(blocks.len(), 0, DataRule::within(1, 2));
        (made, blocks, links)
    }

    #[test]
    fn what_only_data_leads_to_is_told_apart_and_is_not_lost() {
        let (made, blocks, links) = made();
        let copy = made.copy();
        let reach = Reach::of(&copy, &blocks, &globals(GLOBALS), &links);
        let from: Vec<From> = (0..5).map(|block| reach.from(block)).collect();
        assert_eq!(from, [From::Root(0), From::Likeness, From::Block(1), From::Block(0), From::Nothing]);
    }

    #[test]
    fn what_another_reading_reached_stays_and_its_data_is_followed() {
        let (mut made, blocks, mut links) = made();
        made.put(GLOBALS + 8, &[0]);
        let copy = made.copy();
        let mut before = Reach::of(&copy, &blocks, &globals(GLOBALS), &Links::default());
        before.add(&copy, &blocks, 0, &Links::default());
        links.data.set(blocks.len(), 1, DataRule::WHOLE);
        let reach = before.again(&copy, &blocks, &globals(GLOBALS), &links);
        let from: Vec<From> = (0..5).map(|block| reach.from(block)).collect();
        assert_eq!(from, [From::Unsure, From::Likeness, From::Likeness, From::Block(0), From::Nothing]);
    }
}
