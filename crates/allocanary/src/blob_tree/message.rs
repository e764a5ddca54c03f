//! The bytes of a node. In: a leaf's payload, or an inner node's hashes and counts. Out: Dolt's message in a buffer.
//!
//! A message is a FlatBuffers table `Blob` after a prefix of four bytes by Dolt: a kind, and the length in 24 bits,
//! big-endian (all else is little-endian). FlatBuffers are built from their end, so alignment is counted from the end:
//!
//! ```text
//! leaf   27 | length | 20 | "BLOB" | 12 size payload 0 0 tree_size              | 12, tree_size = 1, [pad], 4 | n, payload, [pad]
//! inner  27 | length | 28 | "BLOB" | [pad] 14 size 0 addresses sizes tree_size level | 14, [pad], level, tree_size, [pad],
//!        offset of sizes, offset of addresses | n, sizes, [pad] | n, addresses
//! ```
//!
//! `sizes` are the numbers of leaves below each child, as zigzag varints of the difference from the one before. A field
//! with the value 0 is left out, as usual in FlatBuffers: the tree_size of a node without children, the level of a
//! leaf.
//!
//! It is written by hand. The `flatbuffers` crate gives the same bytes after the prefix (tried with leaves), but it
//! cannot put four unaligned bytes before a finished buffer, because its size prefix takes part in the alignment. It
//! also copies the payload, which we read directly to the place where it is hashed.

use super::hash::HASH_BYTES;

/// Bytes of a full leaf's payload.
pub const LEAF_BYTES: usize = 4000;
/// Children of a full inner node.
pub const FAN_OUT: usize = LEAF_BYTES / HASH_BYTES;
/// Number of levels above the leaves of the largest value, with 2^64 - 1 bytes.
pub(super) const MOST_LEVELS: usize = 7;
/// The size of a buffer for any message: the hashes and the longest varints of a full inner node, and 64 bytes more.
pub(super) const LARGEST: usize = FAN_OUT * (HASH_BYTES + VARINT_BYTES) + 64;
/// Bytes of the longest varint.
pub(super) const VARINT_BYTES: usize = 10;
/// Dolt's number for this kind of message.
pub(super) const KIND: u8 = 27;
/// Size of Dolt's prefix before the FlatBuffer, in bytes.
pub(super) const PREFIX: usize = 4;
/// The file identifier of the FlatBuffer.
pub(super) const NAME: &[u8; 4] = b"BLOB";

/// Number of levels above the leaves of a value of `size` bytes.
pub const fn levels(size: u64) -> usize {
    let (mut levels, mut rest) = (0, size / LEAF_BYTES as u64);
    while size > LEAF_BYTES as u64 && rest > 0 {
        rest /= FAN_OUT as u64;
        levels += 1;
    }
    levels
}

const fn up(number: usize, to: usize) -> usize {
    number.next_multiple_of(to)
}

/// The length of a leaf's message.
pub(super) const fn leaf_length(payload: usize) -> usize {
    up(up(payload, 4) + 8, 8) + 36
}

/// The offset of a leaf's payload in its message.
pub(super) const fn payload_start(payload: usize) -> usize {
    leaf_length(payload) - up(payload, 4)
}

/// Writes a leaf's message except its payload, which is already at [`payload_start`]. Returns the length.
pub(super) fn leaf(buffer: &mut [u8], payload: usize) -> usize {
    let length = leaf_length(payload);
    let start = payload_start(payload);
    let vector = up(payload, 4) + 4; // from the end, as all that follow
    let table = length - 24;
    buffer[..start].fill(0);
    buffer[start + payload..length].fill(0);
    head(buffer, length, 24);
    shorts(buffer, 12, &[12, table - vector, table - vector - 4, 0, 0, 4]);
    word(buffer, 24, 12);
    buffer[28..36].copy_from_slice(&1u64.to_le_bytes());
    word(buffer, length - vector - 4, 4);
    word(buffer, length - vector, payload);
    length
}

/// Writes an inner node's message: the hashes of its children, and the leaves below each. Returns the length.
pub(super) fn inner(buffer: &mut [u8], level: u8, addresses: &[u8], counts: &[u64]) -> usize {
    let leaves: u64 = counts.iter().sum();
    let varints: usize = zigzags(counts).map(varint_length).sum();
    // From the end.
    let address_vector = addresses.len() + 4;
    let size_vector = up(address_vector + varints, 4) + 4;
    let offsets = size_vector + 8;
    let tree_size = if leaves > 0 { up(offsets, 8) + 8 } else { offsets };
    let table = up(tree_size + 1, 4) + 4;
    let length = up(table + 14 + 8, if leaves > 0 { 8 } else { 4 }) + PREFIX;

    let at = |from_end: usize| length - from_end;
    buffer[..at(address_vector)].fill(0);
    head(buffer, length, at(table));
    let tree_size_field = if leaves > 0 { table - tree_size } else { 0 };
    let fields = [14, table - size_vector, 0, table - size_vector - 4, table - offsets, tree_size_field];
    shorts(buffer, at(table) - 14, &fields);
    shorts(buffer, at(table) - 2, &[table - tree_size - 1]);
    word(buffer, at(table), 14);
    buffer[at(tree_size) - 1] = level;
    if leaves > 0 {
        buffer[at(tree_size)..at(tree_size) + 8].copy_from_slice(&leaves.to_le_bytes());
    }
    word(buffer, at(offsets), 8);
    word(buffer, at(offsets) + 4, size_vector + 4 - address_vector);
    word(buffer, at(size_vector), varints);
    let mut next = at(size_vector) + 4;
    for mut zigzag in zigzags(counts) {
        while zigzag >= 0x80 {
            buffer[next] = zigzag as u8 | 0x80;
            zigzag >>= 7;
            next += 1;
        }
        buffer[next] = zigzag as u8;
        next += 1;
    }
    word(buffer, at(address_vector), addresses.len());
    buffer[at(addresses.len())..length].copy_from_slice(addresses);
    length
}

/// Writes Dolt's prefix, the offset of the table, and the name.
fn head(buffer: &mut [u8], length: usize, table: usize) {
    buffer[..PREFIX].copy_from_slice(&((length - PREFIX) as u32).to_be_bytes());
    buffer[0] = KIND;
    word(buffer, PREFIX, table - PREFIX);
    buffer[8..12].copy_from_slice(NAME);
}

fn word(buffer: &mut [u8], at: usize, value: usize) {
    buffer[at..at + 4].copy_from_slice(&(value as u32).to_le_bytes());
}

fn shorts(buffer: &mut [u8], at: usize, values: &[usize]) {
    for (value, place) in values.iter().zip(buffer[at..].chunks_exact_mut(2)) {
        place.copy_from_slice(&(*value as u16).to_le_bytes());
    }
}

/// The difference of each count from the one before, zigzag-coded.
fn zigzags(counts: &[u64]) -> impl Iterator<Item = u64> {
    let before = std::iter::once(0).chain(counts.iter().copied());
    counts.iter().zip(before).map(|(count, before)| {
        let difference = count.wrapping_sub(before) as i64;
        (difference << 1 ^ difference >> 63) as u64
    })
}

fn varint_length(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

#[cfg(test)]
mod tests {
    use super::super::hash::Hash;
    use super::*;

    #[test]
    fn leaves_have_dolts_lengths() {
        for (payload, length) in [(1, 52), (1000, 1044), (4000, 4044)] {
            assert_eq!(leaf_length(payload), length);
        }
        let mut buffer = [0xff; LARGEST];
        buffer[payload_start(1)] = 9;
        assert_eq!(leaf(&mut buffer, 1), 52);
        #[rustfmt::skip]
        let wanted = [
            27, 0, 0, 48, 20, 0, 0, 0, b'B', b'L', b'O', b'B', 12, 0, 20, 0, 16, 0, 0, 0, 0, 0, 4, 0,
            12, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 9, 0, 0, 0,
        ];
        assert_eq!(buffer[..52], wanted);
    }

    #[test]
    fn a_node_of_nothing_is_dolts() {
        let mut buffer = [0xff; LARGEST];
        let length = inner(&mut buffer, 1, &[], &[]);
        assert_eq!(length, 52);
        #[rustfmt::skip]
        let wanted = [
            27, 0, 0, 48, 24, 0, 0, 0, b'B', b'L', b'O', b'B', 0, 0, 14, 0, 16, 0, 0, 0, 12, 0, 8, 0, 0, 0, 7, 0,
            14, 0, 0, 0, 0, 0, 0, 1, 8, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        ];
        assert_eq!(buffer[..52], wanted);
        assert_eq!(Hash::of(&buffer[..52]).to_string(), "7irokiffuc5tjqdlilejnjsehcjku7k7");
    }

    #[test]
    fn sizes_are_zigzag_varints_of_differences() {
        let mut buffer = [0xff; LARGEST];
        let length = inner(&mut buffer, 2, &[3; 40], &[200, 50]);
        let vector = length - 44 - 8; // before the addresses and their number
        assert_eq!(buffer[vector..vector + 8], [4, 0, 0, 0, 0x90, 0x03, 0xab, 0x02]);
        assert_eq!(inner(&mut buffer, 1, &[3; 4000], &[1; 200]), 4260);
    }

    #[test]
    fn the_buffer_takes_the_longest_sizes() {
        // The largest possible differences between counts: each takes ten bytes.
        let counts: Vec<u64> = (0..FAN_OUT as u64).map(|at| at % 2 * (1 << 56)).collect();
        let length = inner(&mut [0; LARGEST], 7, &[0; LEAF_BYTES], &counts);
        assert!(length <= LARGEST, "{length}");
        let longest = (FAN_OUT * (HASH_BYTES + VARINT_BYTES)).next_multiple_of(8);
        assert!(longest + 4 + 4 + 8 + 8 + 8 + 14 + 8 + PREFIX + 6 <= LARGEST);
    }

    #[test]
    fn levels_are_dolts() {
        let known = [(0, 0), (4000, 0), (4001, 1), (799_999, 1), (800_000, 2), (159_999_999, 2), (160_000_000, 3)];
        for (size, wanted) in known {
            assert_eq!(levels(size), wanted, "{size}");
        }
        assert_eq!(levels(u64::MAX), MOST_LEVELS);
    }
}
