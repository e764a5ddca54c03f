//! Reads all groups from the areas of metas. A group has up to 32 slots of one size, and its meta says which are free.
//!
//! A group has its own mapping, or lies in a slot of a larger group. The loader also gives musl the unused ends of libraries' last pages.
//! Groups in this memory are never freed.

use super::context::Context;
use super::release::{AREA, CLASSES, LARGE, MuslRelease, UNIT};
use crate::{Memory, Piece};

/// No address is so large, on any processor.
const MOST: u64 = 1 << 48;

/// A group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MuslGroup {
    /// The address of its meta.
    pub meta: u64,
    /// The address of its first byte. Its head of one unit comes first, then its slots.
    pub from: u64,
    /// A bit for each slot, set if the slot has no block.
    pub free: u32,
    /// The number of its slots.
    pub count: u64,
    /// The bytes of a slot.
    pub stride: u64,
    /// Its size class.
    pub class: u8,
    /// The bytes of its own mapping; 0 if it has none.
    pub mapped: u64,
    /// False for memory that the loader gave to musl, which is never given back.
    pub freeable: bool,
}

impl MuslGroup {
    /// Reads a meta. `None` if it has no group. An error if it cannot be a meta.
    pub fn parse(at: u64, bytes: &[u8], release: &MuslRelease) -> Option<Result<MuslGroup, ()>> {
        let fields = &release.meta;
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let (from, masks, bits) = (word(fields.group), word(fields.masks), word(fields.bits));
        if from == 0 {
            return None;
        }
        let (available, freed) = (masks as u32, (masks >> 32) as u32);
        let (last, class, pages) = (bits & 31, (bits >> 6 & 63) as u8, bits >> 12);
        let mapped = pages.checked_mul(AREA).filter(|bytes| *bytes < MOST);
        // The class of large blocks has no size in units, and a group of this class has one slot.
        let units = CLASSES.get(usize::from(class)).copied().or((class == LARGE && last == 0).then_some(0));
        let stride = match (mapped, units) {
            (Some(mapped), Some(_)) if mapped > 0 && last == 0 => mapped - UNIT,
            (_, Some(units)) => units * UNIT,
            _ => 0,
        };
        let group = MuslGroup {
            meta: at,
            from,
            free: available | freed,
            count: last + 1,
            stride,
            class,
            mapped: mapped.unwrap_or(0),
            freeable: bits >> 5 & 1 == 1,
        };
        let fits = match mapped {
            None => false,
            Some(0) => from.is_multiple_of(UNIT),
            Some(bytes) => from.is_multiple_of(AREA) && group.freeable && UNIT + group.count * stride <= bytes,
        };
        let is_one = fits && stride > 0 && available & freed == 0 && group.free & !group.all() == 0 && from < MOST;
        Some(if is_one { Ok(group) } else { Err(()) })
    }

    /// A bit set for each slot.
    pub fn all(&self) -> u32 {
        ((1_u64 << self.count) - 1) as u32
    }

    /// The address of a slot.
    pub fn slot(&self, index: u64) -> u64 {
        self.from + UNIT + index * self.stride
    }

    /// The address behind its last slot.
    pub fn to(&self) -> u64 {
        self.slot(self.count)
    }
}

/// All groups at one moment.
#[derive(Debug, Default)]
pub struct MuslGroups {
    /// In the order of their metas.
    pub all: Vec<MuslGroup>,
    /// Metas with impossible fields, and areas that could not be read.
    pub breaks: u64,
    /// The number of metas in the ring of metas without a group.
    pub idle: u64,
}

/// Reads all metas at once, so that few blocks change meanwhile. `first_free` is the first meta of the ring, or 0.
pub fn read(memory: &dyn Memory, context: &Context, first_free: u64) -> MuslGroups {
    let release = context.release;
    let mut groups = MuslGroups::default();
    let mut areas: Vec<Piece> = context.areas.iter().map(|at| Piece::new(*at, AREA as usize)).collect();
    memory.read_each(&mut areas);
    groups.breaks += areas.extract_if(.., |area| !area.is_read).count() as u64;
    areas.sort_unstable_by_key(|area| area.at);
    for Piece { at, bytes, .. } in &areas {
        let metas = bytes[release.area.slots..].chunks_exact(release.meta.bytes);
        for (at, bytes) in (at + release.area.slots as u64..).step_by(release.meta.bytes).zip(metas) {
            match MuslGroup::parse(at, bytes, release) {
                Some(Ok(group)) => groups.all.push(group),
                Some(Err(())) => groups.breaks += 1,
                None => {}
            }
        }
    }
    // All metas of the ring are in these areas.
    let next = |meta: u64| {
        let Piece { bytes, .. } = &areas[areas.binary_search_by_key(&(meta / AREA * AREA), |area| area.at).ok()?];
        let place = (meta % AREA) as usize + release.meta.next;
        Some(u64::from_le_bytes(bytes.get(place..place + 8)?.try_into().expect("eight bytes")))
    };
    let (mut at, most) = (first_free, context.areas.len() as u64 * release.metas());
    while at != 0 && groups.idle < most {
        groups.idle += 1;
        at = next(at).filter(|next| *next != first_free).unwrap_or(0);
    }
    groups
}

/// Bytes of blocks that were allocated or freed between two readings.
pub fn moved(before: &[MuslGroup], after: &[MuslGroup]) -> u64 {
    let taken = |group: &MuslGroup| u64::from((group.all() & !group.free).count_ones()) * group.stride;
    let (mut before, mut after) = (before.iter().peekable(), after.iter().peekable());
    let mut sum = 0_u64;
    loop {
        let bytes = match (before.peek(), after.peek()) {
            (Some(one), Some(other)) if one.meta == other.meta => {
                let bytes = match one.from == other.from && one.stride == other.stride {
                    true => u64::from((one.free ^ other.free).count_ones()) * one.stride,
                    false => taken(one).saturating_add(taken(other)),
                };
                before.next();
                after.next();
                bytes
            }
            (Some(one), other) if other.is_none_or(|other| one.meta < other.meta) => before.next().map_or(0, taken),
            (_, Some(_)) => after.next().map_or(0, taken),
            (_, None) => return sum,
        };
        sum = sum.saturating_add(bytes);
    }
}
