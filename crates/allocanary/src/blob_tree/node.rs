//! Reads a node. In: any bytes. Out: a leaf's payload, or an inner node's children; or the problem with the bytes.
//!
//! Each FlatBuffers offset is checked against the message, so that no bytes make it panic.

use super::hash::{HASH_BYTES, Hash};
use super::message::{FAN_OUT, KIND, LEAF_BYTES, MOST_LEVELS, NAME, PREFIX, VARINT_BYTES};

/// A node of a blob's tree, within its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node<'a> {
    /// Some of the value's bytes, at least 1 and at most [`LEAF_BYTES`].
    Leaf(&'a [u8]),
    /// Hashes of other nodes.
    Inner(Inner<'a>),
}

/// A node with at most [`FAN_OUT`] children, or with none ([the special cases](crate::blob_tree)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inner<'a> {
    level: u8,
    leaves: u64,
    addresses: &'a [u8],
    sizes: &'a [u8],
}

/// Bytes that are not a valid node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a node's {part}: wanted {wanted}, found {found}")]
#[non_exhaustive]
pub struct NodeError {
    part: &'static str,
    wanted: String,
    found: u64,
}

/// The indices of the fields in the table of offsets.
const PAYLOAD: usize = 0;
const ADDRESSES: usize = 1;
const SIZES: usize = 2;
const TREE_SIZE: usize = 3;
const LEVEL: usize = 4;

fn check(holds: bool, part: &'static str, wanted: impl ToString, found: impl TryInto<u64>) -> Result<(), NodeError> {
    let wrong = || NodeError { part, wanted: wanted.to_string(), found: found.try_into().unwrap_or(u64::MAX) };
    if holds { Ok(()) } else { Err(wrong()) }
}

impl<'a> Node<'a> {
    /// Reads and checks a message: lengths, offsets, and the sum of the leaf counts.
    pub fn parse(message: &'a [u8]) -> Result<Node<'a>, NodeError> {
        let table = Table::of(message)?;
        let level = table.number(LEVEL, 1)?;
        let leaves = table.number(TREE_SIZE, 8)?;
        check(level <= MOST_LEVELS as u64, "level", format!("at most {MOST_LEVELS}"), level)?;
        if level == 0 {
            let payload = table.vector(PAYLOAD, "payload")?;
            let fits = (1..=LEAF_BYTES).contains(&payload.len());
            check(fits, "payload", format!("1 to {LEAF_BYTES} bytes"), payload.len())?;
            check(leaves == 1, "leaves", "1 for a leaf", leaves)?;
            return Ok(Node::Leaf(payload));
        }
        let addresses = table.vector(ADDRESSES, "addresses")?;
        let whole = addresses.len().is_multiple_of(HASH_BYTES) && addresses.len() <= FAN_OUT * HASH_BYTES;
        check(whole, "addresses", format!("at most {FAN_OUT} of {HASH_BYTES} bytes"), addresses.len())?;
        let inner = Inner { level: level as u8, leaves, addresses, sizes: table.vector(SIZES, "sizes")? };
        inner.check_sizes()?;
        Ok(Node::Inner(inner))
    }
}

impl<'a> Inner<'a> {
    /// Number of levels above the leaves, at least 1.
    pub fn level(&self) -> u8 {
        self.level
    }

    /// Number of leaves below.
    pub fn leaves(&self) -> u64 {
        self.leaves
    }

    /// Each child's hash and the number of leaves below it. A child that is a leaf counts 1.
    pub fn children(&self) -> impl Iterator<Item = (Hash, u64)> + use<'a> {
        let hashes = self.addresses.chunks_exact(HASH_BYTES).map(|bytes| Hash(bytes.try_into().unwrap_or_default()));
        let (mut rest, mut count) = (self.sizes, 0u64);
        hashes.map(move |hash| {
            count = count.wrapping_add_signed(take_difference(&mut rest).unwrap_or(0));
            (hash, count)
        })
    }

    fn check_sizes(&self) -> Result<(), NodeError> {
        let (mut rest, mut count, mut sum) = (self.sizes, 0u64, 0u64);
        let children = self.addresses.len() / HASH_BYTES;
        for child in 0..children {
            let difference = take_difference(&mut rest);
            check(difference.is_some(), "sizes", format!("{children} varints"), child)?;
            let next = count.checked_add_signed(difference.unwrap_or(0));
            check(next.is_some_and(|next| next > 0), "sizes", "a leaf or more below each child", child)?;
            count = next.unwrap_or(0);
            sum = sum.saturating_add(count);
        }
        check(rest.is_empty(), "sizes", "no byte after the last", rest.len())?;
        check(sum == self.leaves, "leaves", format!("{sum}, the sum of its children's"), self.leaves)
    }
}

/// The next zigzag varint; `None` if the bytes end too early or the number is longer than 64 bits.
fn take_difference(bytes: &mut &[u8]) -> Option<i64> {
    let mut zigzag = 0;
    for (at, byte) in bytes.iter().enumerate().take(VARINT_BYTES) {
        let part = u64::from(byte & 0x7f);
        if at == VARINT_BYTES - 1 && part > 1 {
            return None;
        }
        zigzag |= part << (7 * at);
        if byte & 0x80 == 0 {
            *bytes = &bytes[at + 1..];
            return Some((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64));
        }
    }
    None
}

/// A FlatBuffers table: its position, and the offsets of its fields.
struct Table<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Offsets of the fields from the table's start, two bytes each; 0 for a field that is left out.
    fields: &'a [u8],
    size: usize,
}

impl<'a> Table<'a> {
    fn of(message: &'a [u8]) -> Result<Table<'a>, NodeError> {
        check(message.len() >= PREFIX + 8, "message", format!("{} bytes or more", PREFIX + 8), message.len())?;
        check(message[0] == KIND, "kind", KIND, message[0])?;
        let (prefix, bytes) = message.split_at(PREFIX);
        let length = prefix[1..].iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
        check(length == bytes.len(), "length", bytes.len(), length)?;
        let name = u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        check(&bytes[4..8] == NAME, "name", format!("{} (BLOB)", u32::from_be_bytes(*NAME)), name)?;

        let at = offset(bytes, 0, 4, "table")?;
        // The offset is signed: the offsets of the fields may be before or after the table. In Dolt's messages they are
        // before it.
        let back = offset(bytes, at, 4, "table")?;
        let offsets = at.checked_sub(back);
        check(offsets.is_some(), "offsets of fields", format!("at most {at} bytes before the table"), back)?;
        let offsets = offsets.unwrap_or(0);
        let length = offset(bytes, offsets, 2, "offsets of fields")?;
        let size = offset(bytes, offsets + 2, 2, "offsets of fields")?;
        let fields = bytes.get(offsets + 4..offsets + length);
        check(fields.is_some(), "offsets of fields", "4 bytes or more, within the message", length)?;
        check(at + size <= bytes.len(), "table", format!("{} bytes at most", bytes.len() - at), size)?;
        Ok(Table { bytes, at, fields: fields.unwrap_or_default(), size })
    }

    /// The position of a field of `length` bytes; `None` if it is left out.
    fn field(&self, field: usize, length: usize) -> Result<Option<usize>, NodeError> {
        let offset = self.fields.chunks_exact(2).nth(field).map_or(0, |two| little_endian(two) as usize);
        check(offset == 0 || offset + length <= self.size, "field", format!("within {} bytes", self.size), offset)?;
        Ok((offset > 0).then_some(self.at + offset))
    }

    /// A field of `length` bytes as a number; 0 if it is left out.
    fn number(&self, field: usize, length: usize) -> Result<u64, NodeError> {
        Ok(self.field(field, length)?.map_or(0, |at| little_endian(&self.bytes[at..at + length])))
    }

    /// The bytes of a vector of bytes; empty if it is left out.
    fn vector(&self, field: usize, part: &'static str) -> Result<&'a [u8], NodeError> {
        let Some(at) = self.field(field, 4)? else { return Ok(&[]) };
        let start = at + offset(self.bytes, at, 4, part)?;
        let length = offset(self.bytes, start, 4, part)?;
        let bytes = self.bytes[start + 4..].get(..length);
        check(bytes.is_some(), part, format!("at most the {} bytes of the message", self.bytes.len()), length)?;
        Ok(bytes.unwrap_or_default())
    }
}

/// An offset of `length` bytes at `at`.
fn offset(bytes: &[u8], at: usize, length: usize, part: &'static str) -> Result<usize, NodeError> {
    let found = bytes.get(at..).and_then(|rest| rest.get(..length));
    check(found.is_some(), part, format!("an offset of at most {} bytes", bytes.len()), at)?;
    Ok(little_endian(found.unwrap_or_default()) as usize)
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::any;

    use super::super::message;
    use super::*;
    use allocanary_testing::fuzz::holds;

    /// A leaf of 1000 bytes and an inner node of three children.
    fn messages() -> [Vec<u8>; 2] {
        let mut leaf = vec![7; message::LARGEST];
        let length = message::leaf(&mut leaf, 1000);
        leaf.truncate(length);
        let mut inner = vec![0; message::LARGEST];
        let length = message::inner(&mut inner, 2, &[9; 60], &[200, 200, 50]);
        inner.truncate(length);
        [leaf, inner]
    }

    #[test]
    fn what_was_written_is_read() {
        let [leaf, inner] = messages();
        assert_eq!(Node::parse(&leaf), Ok(Node::Leaf(&[7; 1000])));
        let Ok(Node::Inner(inner)) = Node::parse(&inner) else { panic!("an inner node") };
        assert_eq!((inner.level(), inner.leaves()), (2, 450));
        let hash = Hash([9; 20]);
        assert_eq!(inner.children().collect::<Vec<_>>(), [(hash, 200), (hash, 200), (hash, 50)]);
    }

    #[test]
    fn errors_name_part_wanted_and_found() {
        let [leaf, inner] = messages();
        let said = |message: &[u8], at: usize, value: u8| {
            let mut message = message.to_vec();
            message[at] = value;
            Node::parse(&message).unwrap_err().to_string()
        };
        assert_eq!(said(&leaf, 0, 26), "a node's kind: wanted 27, found 26");
        assert_eq!(said(&leaf, 3, 0), "a node's length: wanted 1040, found 1024");
        assert_eq!(said(&leaf, 28, 2), "a node's leaves: wanted 1 for a leaf, found 2");
        // From the end: both vectors, both offsets, a gap, tree_size.
        let level = inner.len() - (60 + 4) - (5 + 3 + 4) - (4 + 4) - 4 - 8 - 1;
        assert_eq!(said(&inner, level, 8), "a node's level: wanted at most 7, found 8");
        let short = Node::parse(&leaf[..11]).unwrap_err().to_string();
        assert_eq!(short, "a node's message: wanted 12 bytes or more, found 11");
    }

    /// For any overwritten or cut bytes the result is an error or a node whose children can be listed.
    #[test]
    fn fuzz_no_bytes_make_it_panic() {
        let changes = vec((0_usize..1100, any::<u8>()), 0..4);
        let heads = vec((4_usize..48, any::<u8>()), 0..3);
        let values = (0_usize..2, changes, heads, 0_usize..1100, any::<bool>());
        holds(4000, 5, values, |(which, changes, heads, length, mends)| {
            let mut message = messages()[which].clone();
            for (at, value) in changes.into_iter().chain(heads) {
                let at = at % message.len();
                message[at] = value;
            }
            if mends {
                // A cut message with a correct prefix, so that the rest is checked.
                message.truncate(length.max(12));
                let length = message.len() as u32 - 4;
                message[..4].copy_from_slice(&length.to_be_bytes());
                message[0] = KIND;
            }
            if let Ok(Node::Inner(inner)) = Node::parse(&message) {
                assert_eq!(inner.children().map(|(_, leaves)| leaves).sum::<u64>(), inner.leaves());
            }
        });
    }

    #[test]
    fn fuzz_nor_do_random_bytes() {
        holds(4000, 5, vec(any::<u8>(), 0..200), |message| assert!(Node::parse(&message).is_err()));
    }
}
