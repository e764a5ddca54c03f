//! What each block is, by what proves itself in it. In: the copy, the blocks, the roots. Out: a kind for each block.
//!
//! 1. What has a type's information at its beginning says its name ([`cpp`]).
//! 2. A node proves itself by its neighbours ([`nodes`]), and a container that something holds proves the blocks that it has ([`owners`]).
//! 3. The rest is told by its content alone ([`content`]): text, pointers, zeroes. That is no type, and is not called one.
//!
//! What only the shape proves is of a language that the process has ([`crate::languages`]).
//!
//! A shape that other programs use as well, such as a circle of two pointers, is marked as likely.

mod btree;
pub mod content;
mod cpp;
mod data;
mod heap;
mod nodes;
mod owners;
mod python;
mod shapes;
pub mod slices;
mod table;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use crate::python::types::Types;
pub use heap::{TypedBlocks, WordSlice};
pub use table::{Kinds, ObjectKind};
use table::{NONE, NOT_LOOKED_AT};

impl Kinds {
    /// The kind of each block.
    pub fn of(heap: &TypedBlocks, types: Option<&Types>) -> Kinds {
        let mut kinds =
            Kinds { all: vec![ObjectKind::default()], known: HashMap::new(), of: vec![NONE; heap.blocks.len()] };
        if let Some(sample) = heap.sample {
            let other = kinds.named(NOT_LOOKED_AT, false);
            heap.blocks.iter().filter(|(_, block)| !sample.has(block)).for_each(|(index, _)| kinds.set(index, other));
        }
        if let Some(types) = types {
            python::mark(heap, types, &mut kinds);
        }
        cpp::mark(heap, &mut kinds);
        if heap.languages.cpp {
            nodes::mark_trees(heap, &mut kinds);
        }
        owners::mark(heap, &mut kinds);
        if heap.languages.cpp {
            nodes::mark_lists(heap, &mut kinds);
        }
        if heap.languages.rust {
            btree::mark(heap, &mut kinds);
        }
        slices::mark(heap, &mut kinds);
        shapes::mark(heap, &mut kinds);
        kinds
    }
}
