//! Finds what points to a block, or to the largest few blocks of a kind: the pointers and their places, the path from a root, and what the
//! block retains.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use crate::contents::{Pointed, PointedBlock, Pointer};
use crate::count::{HolderNames, name};
use crate::dominators::Tree;
use crate::holders::key;
use crate::kinds::{Kinds, TypedBlocks};
use crate::links::Links;
use crate::modules::Open;
use crate::reach::{From, Reach, each_found};
use crate::texts;
use crate::wanted::Target;

/// The most blocks of a kind that are returned, and the most pointers to each.
const BLOCKS: usize = 5;
const POINTERS: usize = 20;
/// The most kinds in a list of the largest ones, and the most blocks of each.
const KINDS: usize = 12;
const OF_KIND: usize = 3;
/// The number of words of a block that are returned, and the number above which a word may be a text of two characters.
const WORDS: usize = 8;
const SMALL: u64 = 0x2000;
/// The most steps of a path that are returned at each end: from the root on, and before the block.
const STEPS: usize = 8;

/// The data in which pointers are searched.
pub struct Search<'a> {
    /// The blocks and their kinds.
    pub heap: &'a TypedBlocks<'a>,
    /// The kinds.
    pub kinds: &'a Kinds,
    /// The walk from the roots.
    pub reach: &'a Reach,
    /// Words that hold nothing.
    pub links: &'a Links,
    /// What blocks retain, if this was computed.
    pub tree: Option<&'a Tree>,
    /// The names of holders.
    pub names: &'a HolderNames<'a>,
    /// Opens the file of a mapping.
    pub open: &'a Open<'a>,
    /// Whether to return texts.
    pub shows_texts: bool,
}

impl Search<'_> {
    /// Finds the blocks, and what points to them.
    pub fn find(&self, target: &Target) -> Pointed {
        let all: Vec<u32> = match target {
            Target::Address(at) => self.heap.blocks.find(*at).into_iter().collect(),
            Target::Kind(text) => self.of_kind(text),
        };
        let wanted: HashSet<u32> = all.iter().copied().collect();
        let sums = self.tree.map(|tree| tree.sums(self.heap, &wanted)).unwrap_or_default();
        let own = |block: u32| (1, self.heap.blocks.get(block).bytes);
        let retains = |block: u32| sums.get(&block).copied().unwrap_or_else(|| own(block));
        let mut chosen = all.clone();
        chosen.sort_by_key(|block| (Reverse(retains(*block).1), *block));
        chosen.truncate(BLOCKS);
        let chosen: Vec<(u32, (u64, u64))> = chosen.into_iter().map(|block| (block, retains(block))).collect();
        let mut pointers = self.pointers(chosen.iter().map(|(block, _)| *block));
        let blocks = chosen.into_iter().map(|(block, sum)| self.one(block, sum, &mut pointers)).collect();
        Pointed { wanted: target.to_string(), found: all.len() as u64, blocks }
    }

    /// The same for the blocks that retain most of each of the largest kinds.
    pub fn largest(&self) -> Vec<Pointed> {
        let mut sums: HashMap<u32, (u64, u64)> = HashMap::new();
        for (index, block) in self.heap.blocks.iter() {
            let sum = sums.entry(self.kinds.number(index)).or_default();
            *sum = (sum.0 + 1, sum.1 + block.bytes);
        }
        let mut kinds: Vec<(u32, (u64, u64))> = sums.into_iter().collect();
        kinds.sort_by_key(|(number, (_, bytes))| (Reverse(*bytes), *number));
        kinds.truncate(KINDS);
        let group: HashMap<u32, usize> = kinds.iter().enumerate().map(|(at, (number, _))| (*number, at)).collect();
        let group = |block: u32| group.get(&self.kinds.number(block)).copied();
        let Some(tree) = self.tree else { return Vec::new() };
        let chosen = tree.most_of(self.heap, kinds.len(), OF_KIND, &group);
        let mut pointers = self.pointers(chosen.iter().flatten().map(|(block, _)| *block));
        let mut blocks = |chosen: &[(u32, (u64, u64))]| -> Vec<PointedBlock> {
            chosen.iter().map(|(block, sum)| self.one(*block, *sum, &mut pointers)).collect()
        };
        let of = |(at, (number, (found, _))): (usize, &(u32, (u64, u64)))| Pointed {
            wanted: self.kinds.kind(*number).name.clone(),
            found: *found,
            blocks: blocks(&chosen[at]),
        };
        kinds.iter().enumerate().map(of).collect()
    }

    fn one(
        &self,
        block: u32,
        (blocks, bytes): (u64, u64),
        pointers: &mut HashMap<u32, (Vec<Pointer>, u64)>,
    ) -> PointedBlock {
        let (all, more) = pointers.remove(&block).unwrap_or_default();
        let place = self.heap.blocks.get(block);
        PointedBlock {
            kind: self.kind(block),
            at: place.at,
            each: place.bytes,
            blocks,
            bytes,
            pointers: all,
            more,
            path: self.path(block),
            first: self.first(block),
            text: if self.shows_texts { texts::shown(self.heap, self.kinds, block) } else { None },
        }
    }

    /// What the first words of a block are: pointers to blocks, and numbers that are too small for two characters of a text.
    fn first(&self, block: u32) -> Vec<String> {
        let words = self.heap.words(block);
        let one = |word: u64| match self.heap.blocks.find(word) {
            Some(to) if self.links.counts(self.heap.blocks, to, word) => {
                format!("pointer to {} at {word:#x}", self.kind(to))
            }
            _ if word < SMALL => word.to_string(),
            _ => "other bytes".into(),
        };
        (0..WORDS).map_while(|at| words.get(at).map(one)).collect()
    }

    fn kind(&self, block: u32) -> String {
        self.kinds.kind(self.kinds.number(block)).name.clone()
    }

    /// The blocks of the kind with this name. If there is none, those of the largest kind whose name contains the text.
    fn of_kind(&self, text: &str) -> Vec<u32> {
        let mut bytes: HashMap<u32, u64> = HashMap::new();
        for (index, block) in self.heap.blocks.iter() {
            *bytes.entry(self.kinds.number(index)).or_default() += block.bytes;
        }
        let fits = |number: &u32| self.kinds.kind(*number).name.contains(text);
        let rank = |number: &u32| (self.kinds.kind(*number).name == text, bytes[number], Reverse(*number));
        let Some(number) = bytes.keys().copied().filter(fits).max_by_key(rank) else { return Vec::new() };
        self.heap.blocks.iter().map(|(index, _)| index).filter(|index| self.kinds.number(*index) == number).collect()
    }

    /// The first pointers to each block, and the number of further ones.
    fn pointers(&self, wanted: impl Iterator<Item = u32>) -> HashMap<u32, (Vec<Pointer>, u64)> {
        let mut found: HashMap<u32, (Vec<Pointer>, u64)> = wanted.map(|block| (block, Default::default())).collect();
        let (heap, blocks) = (self.heap, self.heap.blocks);
        let mut add = |to: u32, pointer: &dyn Fn() -> Pointer| match found.get_mut(&to) {
            Some((all, _)) if all.len() < POINTERS => all.push(pointer()),
            Some((_, more)) => *more += 1,
            None => {}
        };
        for root in heap.roots {
            let mut visit = |at: u64, word: u64| {
                let Some(to) = blocks.find(word).filter(|to| self.links.counts(blocks, *to, word)) else { return };
                add(to, &|| {
                    let (key, offset) = key(heap.modules, root.place, at, self.open);
                    Pointer { from: name(heap, key, self.names, self.open), at, offset, looks_alike: false }
                });
            };
            heap.copy.each_word(root.from..root.to, &mut visit);
            root.word.into_iter().for_each(|word| visit(0, word));
        }
        for (index, block) in blocks.iter() {
            each_found(heap.copy, blocks, self.links, index, |offset, to| {
                if self.links.may_hold(index, offset) {
                    let looks_alike = !self.links.holds(index, offset);
                    add(to, &|| Pointer { from: self.kind(index), at: block.at, offset, looks_alike });
                }
            });
        }
        found
    }

    /// The path from a root to a block: each step, and the offset in it of the pointer to the next step.
    fn path(&self, block: u32) -> Vec<Pointer> {
        let (heap, mut steps, mut at) = (self.heap, Vec::new(), block);
        // A path has each block once.
        loop {
            match self.reach.from(at) {
                From::Block(parent) => {
                    let mut place = None;
                    each_found(heap.copy, heap.blocks, self.links, parent, |offset, to| {
                        place = place.or((to == at && self.links.holds(parent, offset)).then_some(offset));
                    });
                    let from = heap.blocks.get(parent).at;
                    steps.push(Pointer {
                        from: self.kind(parent),
                        at: from,
                        offset: place.unwrap_or(0),
                        looks_alike: false,
                    });
                    at = parent;
                }
                From::Root(root) => {
                    let (word, root) = self.reach.roots[root as usize];
                    let (key, offset) = key(heap.modules, heap.roots[root as usize].place, word, self.open);
                    let from = name(heap, key, self.names, self.open);
                    steps.push(Pointer { from, at: word, offset, looks_alike: false });
                    break;
                }
                From::Nothing | From::Unsure | From::Likeness => break,
            }
        }
        steps.reverse();
        if steps.len() > 2 * STEPS {
            let left = steps.len() - 2 * STEPS;
            let between = Pointer { from: format!("{left} more blocks"), ..Pointer::default() };
            steps.splice(STEPS..STEPS + left, [between]);
        }
        steps
    }
}
