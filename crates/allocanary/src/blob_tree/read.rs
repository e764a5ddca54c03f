//! Reads a value from its nodes. In: the root's hash and a function that finds a node's message. Out: the value's
//! bytes.
//!
//! Every message is hashed again, and every node must have the level and the number of leaves that its parent states.

use std::io::{self, Write};

use super::hash::Hash;
use super::node::{Node, NodeError};

/// Why a value could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// No node has this hash.
    #[error("node {0}: wanted its message, found none in the store")]
    Missing(Hash),
    /// The store returned other bytes.
    #[error("node {wanted}: found a message of the hash {found}: the store's bytes have changed")]
    Changed {
        /// The requested hash.
        wanted: Hash,
        /// The hash of the bytes from the store.
        found: Hash,
    },
    /// The bytes are not a valid node.
    #[error("node {hash}: {source}")]
    Node {
        /// The node's hash.
        hash: Hash,
        /// The problem.
        source: NodeError,
    },
    /// The node does not have the level and leaves that its parent states.
    #[error("node {hash}: wanted level {} with {} leaves, found level {} with {}", wanted.0, wanted.1, found.0, found.1)]
    Place {
        /// The node's hash.
        hash: Hash,
        /// Level and leaves that its parent states.
        wanted: (u8, u64),
        /// Level and leaves that the node itself states.
        found: (u8, u64),
    },
    /// The bytes could not be written.
    #[error("the value read back could not be written at offset {offset}: {source}")]
    Write {
        /// Number of bytes written before.
        offset: u64,
        /// The cause.
        source: io::Error,
    },
}

/// Writes the value below `root` to `out`, and returns its size in bytes. `fetch` finds a node's message. The zero hash
/// is the empty value.
pub fn read<M: AsRef<[u8]>>(
    root: &Hash,
    mut fetch: impl FnMut(&Hash) -> Option<M>,
    out: &mut impl Write,
) -> Result<u64, ReadError> {
    let mut size = 0;
    if *root != Hash::ZERO {
        below(root, None, &mut fetch, out, &mut size)?;
    }
    Ok(size)
}

/// Writes the value below a node. The recursion is at most as deep as a node's level, which is at most 7.
fn below<M: AsRef<[u8]>>(
    hash: &Hash,
    wanted: Option<(u8, u64)>,
    fetch: &mut impl FnMut(&Hash) -> Option<M>,
    out: &mut impl Write,
    size: &mut u64,
) -> Result<(), ReadError> {
    let message = fetch(hash).ok_or(ReadError::Missing(*hash))?;
    let message = message.as_ref();
    let found = Hash::of(message);
    if found != *hash {
        return Err(ReadError::Changed { wanted: *hash, found });
    }
    let node = Node::parse(message).map_err(|source| ReadError::Node { hash: *hash, source })?;
    let found = match node {
        Node::Leaf(_) => (0, 1),
        Node::Inner(inner) => (inner.level(), inner.leaves()),
    };
    if let Some(wanted) = wanted.filter(|wanted| *wanted != found) {
        return Err(ReadError::Place { hash: *hash, wanted, found });
    }
    match node {
        Node::Leaf(payload) => {
            out.write_all(payload).map_err(|source| ReadError::Write { offset: *size, source })?;
            *size += payload.len() as u64;
        }
        Node::Inner(inner) => {
            for (child, leaves) in inner.children() {
                below(&child, Some((inner.level() - 1, leaves)), fetch, out, size)?;
            }
        }
    }
    Ok(())
}
