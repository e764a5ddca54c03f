//! CPython, 3.8 to 3.13, on x86-64. In: the copy. Out: its pools of small blocks, and the type of each object.
//!
//! Nothing needs a symbol: `PyType_Type` is a word A in the interpreter's data with A at A + 8, since its type is itself, and the name
//! "type". From it on every type proves itself by its own type. Builds for debugging and 3.7 have other distances, and have no objects here.

mod globals;
mod pools;
pub mod types;

pub use globals::{PythonVariable, find as variables};
pub use pools::find as pools;
pub use types::Types;

use allocanary_heap::MemoryCopy;

use crate::blocks::Blocks;
use crate::links::{Links, ObjectLink};

/// Which of the blocks are objects.
pub fn links(copy: &MemoryCopy, blocks: &Blocks, types: &Types) -> Links {
    let one = |(_, block): (u32, allocanary_heap::HeapBlock)| match types.object(copy, block) {
        Some((at, of)) => ObjectLink::new(at, of.collected, of.weak),
        None => ObjectLink::default(),
    };
    Links::new(blocks.iter().map(one).collect())
}
