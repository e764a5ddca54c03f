//! Finds the kind of each block, in three steps:
//!
//! 1. A block that begins with type information has the name of its type ([`cpp`]).
//! 2. A node is recognised by its neighbours ([`nodes`]), and the blocks of a container by the container's own words ([`owners`]).
//! 3. Other blocks are described by their content ([`content`]): text, pointers, zeroes. This is no type, and is not shown as one.
//!
//! A kind that only the shape of the words shows is used only if the process has its language ([`crate::languages`]).
//!
//! A shape that other programs use too, such as a circle of two pointers, is marked as likely.

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
