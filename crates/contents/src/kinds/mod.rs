//! What each block is, by what proves itself in it. In: the copy, the blocks, the roots. Out: a kind for each block.
//!
//! 1. What has a type's information at its beginning says its name ([`cpp`]).
//! 2. A container that something holds proves the blocks that it has ([`owners`]), and a node proves itself by its neighbours ([`nodes`]).
//! 3. The rest is told by its content alone ([`content`]): text, pointers, zeroes. That is no type, and is not called one.
//!
//! A shape that other programs use as well, such as a circle of two pointers, is marked as likely.

mod btree;
pub mod content;
mod cpp;
mod heap;
mod nodes;
mod owners;
mod python;
mod shapes;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use crate::python::Types;
pub use heap::{Heap, Words};

/// A kind of blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kind {
    /// Its name.
    pub name: String,
    /// Whether it is likely only.
    pub likely: bool,
}

/// The kinds.
#[derive(Debug, Default)]
pub struct Kinds {
    all: Vec<Kind>,
    known: HashMap<String, u32>,
    of: Vec<u32>,
}

/// The number of no kind.
const NONE: u32 = 0;

/// The kinds of more names than these are one: a hostile program could have a type for each block.
const MOST: usize = 50_000;

impl Kinds {
    /// The kind of each block.
    pub fn of(heap: &Heap, types: Option<&Types>) -> Kinds {
        let mut kinds = Kinds { all: vec![Kind::default()], known: HashMap::new(), of: vec![NONE; heap.blocks.len()] };
        if let Some(sample) = heap.sample {
            let other = kinds.named("not looked at", false);
            heap.blocks.iter().filter(|(_, block)| !sample.has(block)).for_each(|(index, _)| kinds.set(index, other));
        }
        if let Some(types) = types {
            python::mark(heap, types, &mut kinds);
        }
        cpp::mark(heap, &mut kinds);
        owners::mark(heap, &mut kinds);
        nodes::mark(heap, &mut kinds);
        btree::mark(heap, &mut kinds);
        shapes::mark(heap, &mut kinds);
        kinds
    }

    /// The number of a block's kind.
    pub fn number(&self, block: u32) -> u32 {
        self.of[block as usize]
    }

    /// The kind that has a number.
    pub fn kind(&self, number: u32) -> &Kind {
        &self.all[number as usize]
    }

    /// The number of a name.
    fn named(&mut self, name: &str, likely: bool) -> u32 {
        if let Some(known) = self.known.get(name) {
            return *known;
        }
        if self.all.len() >= MOST {
            return self.named_other();
        }
        self.all.push(Kind { name: name.into(), likely });
        let number = self.all.len() as u32 - 1;
        self.known.insert(name.into(), number);
        number
    }

    fn named_other(&mut self) -> u32 {
        const OTHER: &str = "of one of many types";
        if let Some(known) = self.known.get(OTHER) {
            return *known;
        }
        self.all.push(Kind { name: OTHER.into(), likely: false });
        self.known.insert(OTHER.into(), self.all.len() as u32 - 1);
        self.all.len() as u32 - 1
    }

    /// Gives all blocks of one kind another one.
    fn replace(&mut self, from: &str, to: &str) {
        let (from, to) = (self.named(from, false), self.named(to, false));
        self.of.iter_mut().filter(|of| **of == from).for_each(|of| *of = to);
    }

    /// Whether a block has a kind.
    fn has(&self, block: u32) -> bool {
        self.of[block as usize] != NONE
    }

    /// Gives a block a kind unless it has one.
    fn set(&mut self, block: u32, kind: u32) {
        let of = &mut self.of[block as usize];
        if *of == NONE {
            *of = kind;
        }
    }
}
