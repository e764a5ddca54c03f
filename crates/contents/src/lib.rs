//! Internal to [allocanary](https://docs.rs/allocanary): this crate has no stable API, and any release may change it.
//!
//! Finds what the heap of another process contains, what holds it, and what nothing holds. It does so in these steps:
//!
//! 1. It copies the memory that the process can write. The walkers of `allocanary-heap` run on the copy and list the live blocks.
//! 2. It finds the roots: global variables, variables and stacks of threads, registers, and other memory.
//! 3. It follows the pointers from the roots: which blocks are reached, and from which place first. The others are leaked.
//! 4. It finds the kinds of the blocks by their content and their neighbours.
//! 5. [`Contents`] has the kinds, the holders and the leaks as numbers and names, for all views and for a file.
//!
//! All that is read may be hostile: so nothing is recursive, and the memory used is limited by the number of blocks.

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
