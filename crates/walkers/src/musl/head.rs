//! The head of a block, in the bytes before it. In: a slot. Out: the block that the program has there, if the head is that of one.
//!
//! From the last byte backwards: two bytes with the distance to the group's first slot, in units; 3 bits with what is left of the slot and 5
//! with the slot's number; a byte that is 0, or 1 if four bytes before it have the distance. A block need not begin with its slot: then the
//! head there has all 3 bits set and the distance from the slot.

use super::group::Group;
use super::release::{HEAD, UNIT};
use crate::{Block, Window};

/// A distance from a slot is kept modulo this; no more such steps are tried, since nobody aligns blocks by more.
const WRAPS: u64 = 1 << 16;
const STEPS: u64 = 64;

/// The three bits if the block begins behind the slot.
const MOVED: u8 = 7;

/// The block in a slot. An error is one that could not be read.
pub fn block(window: &mut Window, group: &Group, index: u64) -> Result<Option<Block>, ()> {
    let from = group.slot(index);
    let end = from + group.stride - HEAD;
    let (bits, distance, _) = head(window, from).ok_or(())?;
    if bits >> 5 != MOVED {
        return Ok(at(window, group, index, from, end));
    }
    let steps = (0..STEPS).map(|step| from + UNIT * (u64::from(distance) + step * WRAPS)).take_while(|at| *at < end);
    Ok({ steps }.find_map(|place| at(window, group, index, place, end)))
}

/// The block at an address, if its head says that it is there.
fn at(window: &mut Window, group: &Group, index: u64, at: u64, end: u64) -> Option<Block> {
    let (bits, near, far) = head(window, at)?;
    let distance = far.map_or(u64::from(near), u64::from);
    let is_there =
        u64::from(bits & 31) == index && distance * UNIT == at - group.slot(0) && (far.is_none() || near == 0);
    // Less than five bytes are told by the three bits, more by the slot's last four bytes.
    let left = match bits >> 5 {
        5 => u64::from(u32::from_le_bytes(window.bytes(end - 4, 4)?.try_into().expect("four bytes"))),
        left => u64::from(left),
    };
    let bytes = (end - at).checked_sub(left).filter(|_| is_there && (left >= 5) == (bits >> 5 == 5))?;
    Some(Block { at, bytes })
}

/// The byte of bits, the distance in two bytes, and that in four bytes if it has one.
fn head(window: &mut Window, at: u64) -> Option<(u8, u16, Option<u32>)> {
    let bytes = window.bytes(at - 8, 8)?;
    let far = u32::from_le_bytes(bytes[..4].try_into().expect("four bytes"));
    let near = u16::from_le_bytes(bytes[6..].try_into().expect("two bytes"));
    Some((bytes[5], near, (bytes[4] != 0).then_some(far)))
}
