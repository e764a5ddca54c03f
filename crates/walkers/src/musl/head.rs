//! The head of a block, in the bytes before it. In: a slot. Out: the block that the program has there, if the head is that of one.
//!
//! From the last byte backwards: two bytes with the distance to the group's first slot, in units; 3 bits with what is left of the slot and 5
//! with the slot's number; a byte that is 0, or 1 if four bytes before it have the distance. A block need not begin with its slot: then the
//! head there has all 3 bits set and the distance from the slot.

use super::group::Group;
use super::release::{HEAD, UNIT};
use crate::{Block, Memory, Window};

/// A distance from a slot is kept modulo this.
const WRAPS: u64 = 1 << 16;
/// The most such distances that are tried: a block can be aligned by 64 GiB.
const STEPS: u64 = 1 << 16;

/// Slots of at least this many bytes are read by pages: a head may be anywhere in them. In others most of what is needed is in one piece.
const WIDE: u64 = 128 << 10;

/// The three bits if the block begins behind the slot.
const MOVED: u8 = 7;

/// Reads heads.
pub struct Heads<'a> {
    /// For slots one after the other.
    near: Window<'a>,
    /// For wide slots.
    far: Window<'a>,
}

impl<'a> Heads<'a> {
    /// Has read nothing yet.
    pub fn new(memory: &'a dyn Memory) -> Self {
        Heads { near: Window::new(memory), far: Window::of_pages(memory) }
    }

    /// The block in a slot. An error is one that could not be read.
    pub fn block(&mut self, group: &Group, index: u64) -> Result<Option<Block>, ()> {
        let from = group.slot(index);
        let end = from + group.stride - HEAD;
        let window = if group.stride < WIDE { &mut self.near } else { &mut self.far };
        let (bits, distance, _) = head(window, from)?;
        if bits >> 5 != MOVED {
            return at(window, group, index, from, end);
        }
        let places = (0..STEPS).map(|step| from + UNIT * (u64::from(distance) + step * WRAPS));
        for place in places.take_while(|at| *at < end) {
            if let Some(block) = at(window, group, index, place, end)? {
                return Ok(Some(block));
            }
        }
        Ok(None)
    }
}

/// The block at an address, if its head says that it is there, and the bytes that its size is proven by are as musl writes them.
fn at(window: &mut Window, group: &Group, index: u64, at: u64, end: u64) -> Result<Option<Block>, ()> {
    let (bits, near, far) = head(window, at)?;
    let distance = far.map_or(u64::from(near), u64::from);
    if u64::from(bits & 31) != index || distance * UNIT != at - group.slot(0) || far.is_some() && near != 0 {
        return Ok(None);
    }
    // The last bytes of a slot, and the one behind it: all in one copy, since a page beside may have gone and each copy costs a call then.
    let tail: [u8; 6] = window.bytes(end - 5, 6).ok_or(())?.try_into().expect("six bytes");
    // Less than five bytes are told by the three bits, more by the slot's last four bytes.
    let left = match bits >> 5 {
        5 => u64::from(u32::from_le_bytes(tail[1..5].try_into().expect("four bytes"))),
        left => u64::from(left),
    };
    if (left >= 5) != (bits >> 5 == 5) || left > end - at || tail[5] != 0 {
        return Ok(None);
    }
    let is_proven = match left {
        0..5 => tail[5 - left as usize] == 0,
        _ => tail[0] == 0 && window.bytes(end - left, 1).ok_or(())? == [0],
    };
    Ok(is_proven.then_some(Block { at, bytes: end - at - left }))
}

/// The byte of bits, the distance in two bytes, and that in four bytes if it has one. An error is one that could not be read.
fn head(window: &mut Window, at: u64) -> Result<(u8, u16, Option<u32>), ()> {
    let bytes = window.bytes(at - 8, 8).ok_or(())?;
    let far = u32::from_le_bytes(bytes[..4].try_into().expect("four bytes"));
    let near = u16::from_le_bytes(bytes[6..].try_into().expect("two bytes"));
    Ok((bytes[5], near, (bytes[4] != 0).then_some(far)))
}
