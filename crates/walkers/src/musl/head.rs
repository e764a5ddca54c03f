//! The head of a block, in the bytes before it. In: a slot. Out: the block that the program has there, if the head is that of one.
//!
//! From the last byte backwards: two bytes with the distance to the group's first slot, in units; 3 bits with what is left of the slot and 5
//! with the slot's number; a byte that is 0, or 1 if four bytes before it have the distance. A block need not begin with its slot: then the
//! head there has all 3 bits set and the distance from the slot.

use super::batch::Batch;
use super::group::MuslGroup;
use super::release::{HEAD, UNIT};
use crate::HeapBlock;

/// A distance from a slot is kept modulo this.
const WRAPS: u64 = 1 << 16;
/// The most such distances that are tried: a block can be aligned by 64 GiB.
const STEPS: u64 = 1 << 16;

/// The three bits if the block begins behind the slot.
const MOVED: u8 = 7;

/// The block in a slot. An error is one that could not be read.
pub fn block(batch: &mut Batch, group: &MuslGroup, index: u64) -> Result<Option<HeapBlock>, ()> {
    let from = group.slot(index);
    let end = from + group.stride - HEAD;
    let first = head(batch, from)?;
    let (bits, distance, _) = first;
    if bits >> 5 != MOVED {
        return at(batch, group, index, from, end, first);
    }
    // Mostly musl has written at none of these places but one: reading the others as if it had would give the process pages.
    let places = (0..STEPS).map(|step| from + UNIT * (u64::from(distance) + step * WRAPS));
    for place in places.take_while(|at| *at < end) {
        // Of a group that was mapped since the mappings were read nothing is known there.
        let Some(guessed) = batch.bytes(place - 8, 8).map(parts) else { break };
        if let Some(block) = at(batch, group, index, place, end, guessed)? {
            return Ok(Some(block));
        }
    }
    // The page may be newer than the look at all pages: then the nearest place is tried, which gives the process one page at most.
    let nearest = from + UNIT * u64::from(distance);
    let written = head(batch, nearest)?;
    at(batch, group, index, nearest, end, written)
}

/// The block at an address, if its head says that it is there, and the bytes that its size is proven by are as musl writes them.
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
    // Less than five bytes are told by the three bits, more by the slot's last four bytes. The last bytes of a slot, and the one behind it,
    // may be in a page that nobody has written to, if the slot does not tell there what is left.
    let tells = bits >> 5 == 5;
    let tail = if tells { batch.written(end - 5, 6) } else { batch.bytes(end - 5, 6) };
    let tail: [u8; 6] = match tail.and_then(|tail| tail.try_into().ok()) {
        Some(tail) => tail,
        // Of a group that was mapped since, whose class has the length of its slots.
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

/// The byte of bits, the distance in two bytes, and that in four bytes if it has one.
type Head = (u8, u16, Option<u32>);

/// The head before an address at which musl has written one. An error is one that could not be read.
fn head(batch: &mut Batch, at: u64) -> Result<Head, ()> {
    batch.written(at - 8, 8).map(parts).ok_or(())
}

fn parts(bytes: &[u8]) -> Head {
    let far = u32::from_le_bytes(bytes[..4].try_into().expect("four bytes"));
    let near = u16::from_le_bytes(bytes[6..].try_into().expect("two bytes"));
    (bytes[5], near, (bytes[4] != 0).then_some(far))
}
