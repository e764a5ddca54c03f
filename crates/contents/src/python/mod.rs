//! Finds the pools of small blocks of CPython 3.8 to 3.13 on x86-64, and the type of each object.
//!
//! No symbol is needed. `PyType_Type` is its own type: its address A is in the interpreter's data, the word at A + 8 is A, and its name is
//! "type". Every other type is recognised by its own type. Debug builds and 3.7 have other offsets, so none of their objects are found.

mod globals;
mod layout;
mod pools;
pub mod types;

pub use globals::{PythonVariable, find as variables};
pub use pools::find as pools;
pub use types::Types;

use allocanary_heap::MemoryCopy;

use crate::blocks::Blocks;
use crate::data::DataWords;
use crate::links::{Links, ObjectLink};

/// Finds which blocks have objects, and which of their words are data.
pub fn links(copy: &MemoryCopy, blocks: &Blocks, types: &Types) -> Links {
    let (mut data, mut owned) = (DataWords::default(), Vec::new());
    let mut objects = Vec::with_capacity(blocks.len());
    for (index, block) in blocks.iter() {
        let Some((at, of)) = types.object(copy, block) else {
            objects.push(ObjectLink::default());
            continue;
        };
        objects.push(ObjectLink::new(at, of.collected, of.weak));
        data.set(blocks.len(), index, layout::rule(copy, block, at, &of));
        if layout::owns(&of) {
            owned.push((block.at + at, of));
        }
    }
    let mut links = Links::new(objects);
    for (object, of) in owned {
        let is_object = |block| links.object(block).is_some();
        layout::owned(copy, blocks, object, &of, is_object, |block, rule| data.set(blocks.len(), block, rule));
    }
    links.data = data;
    links
}
