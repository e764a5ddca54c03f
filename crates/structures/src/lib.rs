//! Internal to [allocanary](https://docs.rs/allocanary), which re-exports all of it: this crate promises nothing by itself, and
//! any release may change it.
//!
//! Data structures that ask an allocator for little or nothing: an arena, a sort buffer in memory or in a mapped file, and a
//! tree of chunks.

// Numbers and texts are returned: only the command writes to a terminal.
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::dbg_macro)]

#[cfg(feature = "arena")]
pub mod arena;
#[cfg(feature = "blob-tree")]
pub mod blob_tree;
#[cfg(feature = "sort-buffer")]
pub mod sort_buffer;

#[cfg(feature = "blob-tree")]
pub use blob_tree::BlobTree;
