//! Dolt's tree for large values, byte for byte, built with no allocation once it is warm. In: a reader and its size.
//! Out: each node's message and hash, and the root's hash.
//!
//! Dolt cuts a value into leaves of 4000 bytes below nodes of 200 hashes. Its builder was published as a memory case:
//! 2.7 MB and 2543 allocations for a value of 1 MB, then half of that with reused buffers. A [`BlobTree`] keeps every
//! buffer, reads directly into the bytes that are hashed, and needs no allocation.
//!
//! ```
//! use std::convert::Infallible;
//!
//! let mut tree = allocanary::BlobTree::new();
//! let (data, mut nodes) = (vec![7; 10_000], Vec::new());
//! let root = tree.build(data.as_slice(), 10_000, |hash, message| {
//!     nodes.push((*hash, message.to_vec()));
//!     Ok::<(), Infallible>(())
//! })?;
//! assert_eq!((nodes.len(), nodes[3].0), (4, root)); // three leaves and the root above them
//!
//! let mut back = Vec::new();
//! let fetch = |wanted: &_| nodes.iter().find(|(hash, _)| hash == wanted).map(|(_, message)| message);
//! allocanary::blob_tree::read(&root, fetch, &mut back)?;
//! assert_eq!(back, data);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! In three special cases the nodes are the same as Dolt's, because hashes depend on them. A value of a multiple of
//! 800,000 bytes gets an empty node that no other node refers to. A value of exactly 800,000 bytes gets a root with one
//! child. An empty value has no node and the hash of zeros. One case differs: Dolt makes a leaf of the result of a
//! single `read`, so that a reader in small steps changes the hash.

mod builder;
mod hash;
mod message;
mod node;
mod read;
#[cfg(test)]
mod tests;

pub use builder::{BlobTree, BuildError, Requested};
pub use hash::{Hash, HashError};
pub use message::{FAN_OUT, LEAF_BYTES, levels};
pub use node::{Inner, Node, NodeError};
pub use read::{ReadError, read};
