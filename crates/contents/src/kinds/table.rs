//! The table of kinds, each with a number and a name, and the kind of each block.

use std::collections::HashMap;

/// A kind of blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectKind {
    /// Its name.
    pub name: String,
    /// Whether the kind is only likely.
    pub likely: bool,
}

/// The kinds.
#[derive(Debug, Default)]
pub struct Kinds {
    pub(super) all: Vec<ObjectKind>,
    pub(super) known: HashMap<String, u32>,
    pub(super) of: Vec<u32>,
}

/// The name of the kind of blocks that were not examined.
pub(super) const NOT_LOOKED_AT: &str = "not looked at";

/// The number that means "no kind".
pub(super) const NONE: u32 = 0;

/// The most kinds. All further names share one kind: a hostile program could have a type for each block.
const MOST: usize = 50_000;

impl Kinds {
    /// Starts with this number of blocks, none of which was examined.
    pub fn unknown(blocks: usize) -> Kinds {
        let all = vec![ObjectKind { name: NOT_LOOKED_AT.into(), likely: false }];
        Kinds { all, known: HashMap::new(), of: vec![NONE; blocks] }
    }

    /// The number of a block's kind.
    pub fn number(&self, block: u32) -> u32 {
        self.of[block as usize]
    }

    /// The kind with this number.
    pub fn kind(&self, number: u32) -> &ObjectKind {
        &self.all[number as usize]
    }

    /// The number of the kind with this name, which is made if there is none.
    pub(super) fn named(&mut self, name: &str, likely: bool) -> u32 {
        if let Some(known) = self.known.get(name) {
            return *known;
        }
        if self.all.len() >= MOST {
            return self.named_other();
        }
        self.all.push(ObjectKind { name: name.into(), likely });
        let number = self.all.len() as u32 - 1;
        self.known.insert(name.into(), number);
        number
    }

    fn named_other(&mut self) -> u32 {
        const OTHER: &str = "of one of many types";
        if let Some(known) = self.known.get(OTHER) {
            return *known;
        }
        self.all.push(ObjectKind { name: OTHER.into(), likely: false });
        self.known.insert(OTHER.into(), self.all.len() as u32 - 1);
        self.all.len() as u32 - 1
    }

    /// Gives all blocks of one kind another one.
    pub(super) fn replace(&mut self, from: &str, to: &str) {
        let (from, to) = (self.named(from, false), self.named(to, false));
        self.of.iter_mut().filter(|of| **of == from).for_each(|of| *of = to);
    }

    /// Whether a block has a kind.
    pub(super) fn has(&self, block: u32) -> bool {
        self.of[block as usize] != NONE
    }

    /// Gives a block a kind unless it has one.
    pub(super) fn set(&mut self, block: u32, kind: u32) {
        let of = &mut self.of[block as usize];
        if *of == NONE {
            *of = kind;
        }
    }
}
