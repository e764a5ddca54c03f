//! Builds a value's tree. In: a reader and its number of bytes. Out: each node when it is complete, and the root's
//! hash.

use std::fmt::Display;
use std::io::{self, Read};

use super::hash::{HASH_BYTES, Hash};
use super::message::{self, FAN_OUT, LARGEST, LEAF_BYTES, MOST_LEVELS, VARINT_BYTES};

/// A builder of trees. It keeps its buffers from one value to the next: 8 KiB, and 5600 bytes for each level so far.
/// After it has built a value with the same number of levels, it needs no further allocation.
#[derive(Debug, Default)]
pub struct BlobTree {
    levels: [Level; MOST_LEVELS],
    message: Vec<u8>,
    per_node: bool,
    asked: Requested,
}

/// Children of a node that is not yet full.
#[derive(Debug, Default)]
struct Level {
    addresses: Vec<u8>,
    counts: Vec<u64>,
}

/// The allocations of a builder, by its own count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requested {
    /// Number of allocations.
    pub allocations: u64,
    /// Number of bytes of all allocations.
    pub bytes: u64,
}

/// Why a tree could not be built. Nodes that were stored before are still valid, and the builder can be used again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError<E: Display> {
    /// The reader ended before `size` bytes.
    #[error("the reader ended at offset {offset}: wanted {wanted} bytes, found {offset}")]
    Short {
        /// Number of bytes read.
        offset: u64,
        /// The stated size.
        wanted: u64,
    },
    /// The reader had more bytes. To make a value of a part of a stream, use [`Read::take`].
    #[error("the reader goes on at offset {wanted}: wanted {wanted} bytes, found more")]
    Long {
        /// The stated size.
        wanted: u64,
    },
    /// The reader failed.
    #[error("the reader failed at offset {offset}: wanted {wanted} bytes, found {offset} and then: {source}")]
    Read {
        /// Number of bytes read.
        offset: u64,
        /// The stated size.
        wanted: u64,
        /// The reader's error.
        source: io::Error,
    },
    /// The store failed.
    #[error("the store did not take node {hash}, which ends at offset {offset} of {wanted} bytes: {source}")]
    Store {
        /// The node.
        hash: Hash,
        /// Number of bytes read when the node was complete.
        offset: u64,
        /// The stated size.
        wanted: u64,
        /// The store's error.
        source: E,
    },
}

impl BlobTree {
    /// A builder without buffers. The first value allocates them.
    pub fn new() -> Self {
        BlobTree::default()
    }

    /// Builds like Dolt's builder after the published repair, for comparison: it keeps the levels' arrays and writes
    /// every node to a new buffer. If each value gets a new builder, the allocations are those before the repair.
    pub fn with_buffer_per_node() -> Self {
        BlobTree { per_node: true, ..BlobTree::default() }
    }

    /// The allocations since the builder was made.
    pub fn asked(&self) -> Requested {
        self.asked
    }

    /// Size of the present buffers, in bytes.
    pub fn held_bytes(&self) -> u64 {
        let level = |level: &Level| level.addresses.capacity() + level.counts.capacity() * size_of::<u64>();
        (self.message.capacity() + self.levels.iter().map(level).sum::<usize>()) as u64
    }

    /// Builds the tree of the `size` bytes of `reader`, passes every node to `store`, children first, and returns the
    /// root's hash. The same bytes make the same tree, even if the reader splits them differently. An empty value has
    /// no node, and the root [`Hash::ZERO`].
    ///
    /// It reads one byte more than `size`, to check that the reader ends there.
    pub fn build<E: Display>(
        &mut self,
        reader: impl Read,
        size: u64,
        mut store: impl FnMut(&Hash, &[u8]) -> Result<(), E>,
    ) -> Result<Hash, BuildError<E>> {
        let top = message::levels(size);
        self.levels[..top].iter_mut().for_each(|level| level.prepare(&mut self.asked));
        let mut source = Source { reader, offset: 0, size };
        let mut root = None;
        while source.offset < size {
            let payload = LEAF_BYTES.min((size - source.offset).try_into().unwrap_or(LEAF_BYTES));
            let buffer = buffer(&mut self.message, self.per_node, &mut self.asked, payload, 1);
            source.fill(&mut buffer[message::payload_start(payload)..][..payload])?;
            if source.offset == size {
                source.end()?;
            }
            let length = message::leaf(buffer, payload);
            let mut child = (put(&buffer[..length], &source, &mut store)?, 1);
            root = (top == 0).then_some(child.0);
            // A node is written as soon as it is full. It may then fill the node above.
            for at in 0..top {
                if !self.levels[at].push(child) {
                    break;
                }
                child = self.node(at, &source, &mut store)?;
                root = (at + 1 == top).then_some(child.0);
            }
        }
        if size == 0 {
            source.end()?;
            return Ok(Hash::ZERO);
        }
        if let Some(root) = root {
            return Ok(root);
        }
        // Write the remaining children of each level, even if there are none.
        let mut last = Hash::ZERO;
        for at in 0..top {
            let child = self.node(at, &source, &mut store)?;
            if child.1 > 0 && at + 1 < top {
                self.levels[at + 1].push(child);
            }
            last = child.0;
        }
        Ok(last)
    }

    /// Writes the node of a level's present children. Returns its hash and the number of leaves below it.
    fn node<E: Display>(
        &mut self,
        at: usize,
        source: &Source<impl Read>,
        store: &mut impl FnMut(&Hash, &[u8]) -> Result<(), E>,
    ) -> Result<(Hash, u64), BuildError<E>> {
        let level = &mut self.levels[at];
        let children = level.counts.len();
        let buffer = buffer(&mut self.message, self.per_node, &mut self.asked, level.addresses.len(), children);
        let length = message::inner(buffer, at as u8 + 1, &level.addresses, &level.counts);
        let leaves = level.counts.iter().sum();
        level.clear();
        Ok((put(&buffer[..length], source, store)?, leaves))
    }
}

/// The buffer for a node's message.
fn buffer<'a>(
    kept: &'a mut Vec<u8>,
    per_node: bool,
    asked: &mut Requested,
    values: usize,
    children: usize,
) -> &'a mut [u8] {
    if per_node {
        // The size of Dolt's buffer for a node: its values, the longest varints, and 200 bytes for all else.
        *kept = asked.count(vec![0; values + VARINT_BYTES * children + 200]);
    } else if kept.is_empty() {
        *kept = asked.count(vec![0; LARGEST]);
    }
    kept
}

/// Passes a node to the store.
fn put<E: Display>(
    message: &[u8],
    source: &Source<impl Read>,
    store: &mut impl FnMut(&Hash, &[u8]) -> Result<(), E>,
) -> Result<Hash, BuildError<E>> {
    let hash = Hash::of(message);
    let (offset, wanted) = (source.offset, source.size);
    store(&hash, message).map_err(|source| BuildError::Store { hash, offset, wanted, source })?;
    Ok(hash)
}

impl Level {
    /// Empties the level, and allocates its arrays if it has none.
    fn prepare(&mut self, asked: &mut Requested) {
        self.clear();
        if self.addresses.capacity() == 0 {
            self.addresses = asked.count(Vec::with_capacity(LEAF_BYTES));
            self.counts = asked.count(Vec::with_capacity(FAN_OUT));
        }
    }

    fn clear(&mut self) {
        self.addresses.clear();
        self.counts.clear();
    }

    /// Adds a child. Returns whether the level is now full.
    fn push(&mut self, (hash, leaves): (Hash, u64)) -> bool {
        self.addresses.extend_from_slice(&hash.0);
        self.counts.push(leaves);
        self.addresses.len() == FAN_OUT * HASH_BYTES
    }
}

impl Requested {
    /// Counts a vector that has just been allocated.
    fn count<T>(&mut self, made: Vec<T>) -> Vec<T> {
        self.allocations += 1;
        self.bytes += (made.capacity() * size_of::<T>()) as u64;
        made
    }
}

/// A reader and its position.
struct Source<R> {
    reader: R,
    offset: u64,
    size: u64,
}

impl<R: Read> Source<R> {
    /// Reads until `buffer` is full, because the tree must not depend on how a reader splits its bytes.
    fn fill<E: Display>(&mut self, mut buffer: &mut [u8]) -> Result<(), BuildError<E>> {
        while !buffer.is_empty() {
            let count = self.read(buffer)?;
            if count == 0 {
                return Err(BuildError::Short { offset: self.offset, wanted: self.size });
            }
            self.offset += count as u64;
            buffer = &mut buffer[count..];
        }
        Ok(())
    }

    /// Checks that there is nothing after the last byte.
    fn end<E: Display>(&mut self) -> Result<(), BuildError<E>> {
        match self.read(&mut [0])? {
            0 => Ok(()),
            _ => Err(BuildError::Long { wanted: self.size }),
        }
    }

    fn read<E: Display>(&mut self, buffer: &mut [u8]) -> Result<usize, BuildError<E>> {
        loop {
            let source = match self.reader.read(buffer) {
                Ok(count) if count <= buffer.len() => return Ok(count),
                Ok(count) => io::Error::other(format!("it claims {count} bytes of {} asked for", buffer.len())),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => error,
            };
            return Err(BuildError::Read { offset: self.offset, wanted: self.size, source });
        }
    }
}
