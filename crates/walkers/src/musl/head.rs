//! Reads the head of a block, which is in the bytes before the block, and so finds the block in a slot.
//!
//! The head, from its last byte backwards: two bytes with the distance to the group's first slot, in units; one byte with 5 bits for the
//! slot's number and 3 bits for the unused bytes of the slot; one byte that is 1 if the distance is in the four bytes before it, else 0. A
//! block can begin behind the start of its slot. Then the head at the slot has all 3 bits set, and the distance from the slot to the block.

use super::batch::Batch;
use super::group::MuslGroup;
use super::release::{HEAD, UNIT};
use crate::HeapBlock;

/// The distance from a slot to its block is stored modulo this, in units.
const WRAPS: u64 = 1 << 16;
/// The most possible distances that are tried. This is enough for an alignment of 64 GiB.
const STEPS: u64 = 1 << 16;

/// The value of the three bits if the block begins behind its slot.
const MOVED: u8 = 7;

/// The block in a slot; `None` if the head is not that of a block. An error if it could not be read.
pub fn block(batch: &mut Batch, group: &MuslGroup, index: u64) -> Result<Option<HeapBlock>, ()> {
    let from = group.slot(index);
    let end = from + group.stride - HEAD;
    let first = head(batch, from)?;
    let (bits, distance, _) = first;
    if bits >> 5 != MOVED {
        return at(batch, group, index, from, end, first);
    }
    // Usually musl has written at only one of these places. A read of the others by `written` would give the process new pages.
    let places = (0..STEPS).map(|step| from + UNIT * (u64::from(distance) + step * WRAPS));
    for place in places.take_while(|at| *at < end) {
        // If the group was mapped after the mappings were read, these bytes cannot be read.
        let Some(guessed) = batch.bytes(place - 8, 8).map(parts) else { break };
        if let Some(block) = at(batch, group, index, place, end, guessed)? {
            return Ok(Some(block));
        }
    }
    // The page may be newer than the states of the pages. Then the nearest place is tried: this read gives the process one page at most.
    let nearest = from + UNIT * u64::from(distance);
    let written = head(batch, nearest)?;
    at(batch, group, index, nearest, end, written)
}

/// The block at an address, if its head is right, and the bytes that confirm its size are as musl writes them.
fn at(
    batch: &mut Batch,
    group: &MuslGroup,
    index: u64,
    at: u64,
    end: u64,
    head: Head,
) -> Result<Option<HeapBlock>, ()> {
    let (bits, near, far) = head;
    let distance = far.map_or(u64::from(near), u64::from);
    if u64::from(bits & 31) != index || distance * UNIT != at - group.slot(0) || far.is_some() && near != 0 {
        return Ok(None);
    }
    // Less than five unused bytes are in the three bits. A larger number is in the slot's last four bytes. Otherwise the last bytes of the
    // slot, and the byte behind it, may be in a page that nobody has written to.
    let tells = bits >> 5 == 5;
    let tail = if tells { batch.written(end - 5, 6) } else { batch.bytes(end - 5, 6) };
    let tail: [u8; 6] = match tail.and_then(|tail| tail.try_into().ok()) {
        Some(tail) => tail,
        // A group that was mapped after the mappings were read. Its bytes are not known, but its class gives the size of its slots.
        None if !tells && group.count > 1 && batch.is_new(end) => [0; 6],
        None => return Err(()),
    };
    let left = match tells {
        true => u64::from(u32::from_le_bytes(tail[1..5].try_into().expect("four bytes"))),
        false => u64::from(bits >> 5),
    };
    if (left >= 5) != tells || left > end - at || tail[5] != 0 {
        return Ok(None);
    }
    let is_proven = match left {
        0..5 => tail[5 - left as usize] == 0,
        _ => tail[0] == 0 && batch.written(end - left, 1).ok_or(())? == [0],
    };
    Ok(is_proven.then_some(HeapBlock { at, bytes: end - at - left }))
}

/// The byte of bits, the distance in two bytes, and the distance in four bytes if the head has it.
type Head = (u8, u16, Option<u32>);

/// The head before an address, where musl has written one. An error if it could not be read.
fn head(batch: &mut Batch, at: u64) -> Result<Head, ()> {
    batch.written(at - 8, 8).map(parts).ok_or(())
}

fn parts(bytes: &[u8]) -> Head {
    let far = u32::from_le_bytes(bytes[..4].try_into().expect("four bytes"));
    let near = u16::from_le_bytes(bytes[6..].try_into().expect("two bytes"));
    (bytes[5], near, (bytes[4] != 0).then_some(far))
}
