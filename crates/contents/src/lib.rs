//! Internal to [allocanary](https://docs.rs/allocanary): this crate has no stable API, and any release may change it.
//!
//! What the heap of another process contains, who holds it, and what nothing holds. Data flow in one direction:
//!
//! 1. A copy of what the process can write. The walkers of `allocanary-heap` run on it and list the live blocks.
//! 2. The roots: globals, variables and stacks of threads, registers, other memory.
//! 3. The walk from them: which blocks are reached, and from where first. The others are leaked.
//! 4. The kinds of blocks, by what proves itself in them.
//! 5. [`Contents`]: the kinds, the holders and the leaks as numbers and names, for every view and for a file.
//!
//! Everything that is read is hostile: no recursion, and no memory but for what blocks there are.

// This crate returns numbers and texts. Only the command writes to a terminal.
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::dbg_macro)]
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod blocks;
mod budget;
mod buffers;
mod contents;
mod copy;
mod count;
mod data;
mod dominators;
mod found;
pub mod held;
mod holders;
mod kinds;
mod languages;
mod leaks;
mod links;
#[cfg(test)]
mod made;
mod modules;
mod names;
mod paths;
mod pointed;
mod profile;
mod python;
mod reach;
mod roots;
mod sample;
mod snapshot;
mod take;
mod texts;
mod threads;
mod wanted;

pub use budget::WAIT;
pub use contents::{
    Alike, Contents, Copies, CoreState, Holder, InnerBlocks, KindRow, LeakSite, Leaked, Lost, Pointed, PointedBlock,
    Pointer, Retained, SCHEMA, SampledPages, Text,
};
pub use holders::LIKENESS;
pub use kinds::slices::SLAB;
pub use take::{take, take_core};
pub use wanted::{ContentsRequest, Target};
