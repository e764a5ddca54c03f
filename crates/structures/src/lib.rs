//! Internal to [allocanary](https://docs.rs/allocanary), which re-exports all of it: this crate has no stable API by
//! itself, and any release may change it.
//!
//! Data structures with few allocations or none: an arena, a sort buffer in memory or in a mapped file, and a tree of
//! chunks.

// This crate returns numbers and texts. Only the command writes to a terminal.
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::dbg_macro)]

#[cfg(feature = "arena")]
pub mod arena;
#[cfg(feature = "blob-tree")]
pub mod blob_tree;
#[cfg(feature = "sort-buffer")]
pub mod sort_buffer;

#[cfg(feature = "blob-tree")]
pub use blob_tree::BlobTree;
