//! A page of mimalloc: blocks of one size. It is read from its `mi_page_t`.

use super::release::{BlockStart, MimallocRelease};

/// `MI_THREADID_ABANDONED_MAPPED`: an abandoned page has a number up to this in place of its thread.
const ABANDONED: u64 = 4;

/// The bytes of a slice: arenas and segments consist of slices.
pub const SLICE: u64 = 1 << 16;

/// Where a page's memory is from (`mi_memid_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Slices of an arena.
    Arena {
        /// The arena's address.
        arena: u64,
        /// The first slice.
        slice: u32,
        /// The number of slices.
        slices: u32,
    },
    /// Slices of a segment, in mimalloc 2.
    Segment {
        /// The address of the first slice.
        from: u64,
        /// The number of bytes.
        bytes: u64,
    },
    /// Memory directly from the kernel.
    Kernel {
        /// The address of the first byte.
        base: u64,
        /// The number of bytes.
        bytes: u64,
    },
}

/// A page.
#[derive(Clone, Copy, Debug)]
pub struct MiPage {
    /// The address of its `mi_page_t`.
    pub at: u64,
    /// The address of the first block.
    pub start: u64,
    /// The bytes of a block, all of them usable.
    pub block: u64,
    /// Used blocks, including those that other threads have freed.
    pub used: u16,
    /// Blocks that were ever made: mimalloc makes the blocks of a page little by little.
    pub capacity: u16,
    /// The first blocks of the lists `free` and `local_free`.
    pub free: [u64; 2],
    /// The first block that another thread has freed.
    pub freed_by_others: u64,
    /// The heap of the thread that owns it. An abandoned page has none, or its former one.
    pub owner: u64,
    /// Whether a thread owns it.
    pub owned: bool,
    /// Where its memory is from.
    pub origin: Origin,
}

impl MiPage {
    /// Reads the fields. `None` if they cannot be those of a page.
    pub fn parse(at: u64, bytes: &[u8], release: &MimallocRelease) -> Option<MiPage> {
        let fields = &release.page;
        let word = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let half = |at: usize| Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
        let (first, second) = (word(fields.memid)?, word(fields.memid + 8)?);
        // `mi_memkind_t`: kinds below `arena_kind` are memory that the program gave, static memory, memory of the kernel, and in some
        // releases memory for structures.
        let origin = match word(fields.memid_kind)? as u32 {
            kind if kind == fields.arena_kind => {
                Origin::Arena { arena: first, slice: second as u32, slices: (second >> 32) as u32 }
            }
            kind if (1..fields.arena_kind).contains(&kind) => Origin::Kernel { base: first, bytes: second },
            _ => return None,
        };
        let start = match fields.start {
            BlockStart::Field(field) => word(field)?,
            BlockStart::Distance { field, unit } => at.wrapping_add(word(field)?.wrapping_mul(unit)),
        };
        let page = MiPage {
            at,
            start,
            block: word(fields.block_size)?,
            used: half(fields.used)?,
            capacity: half(fields.capacity)?,
            free: [word(fields.free)?, word(fields.local_free)?],
            freed_by_others: word(fields.xthread_free)? & !1,
            owner: word(fields.owner)?,
            owned: word(fields.thread)? & !3 > ABANDONED,
            origin,
        };
        let reserved = half(fields.reserved)?;
        let end = page.start.checked_add(page.block.checked_mul(u64::from(reserved))?)?;
        let room = match origin {
            // Here the arena has the address of its slices in a field. The page begins in its own first slice, so this is not needed.
            Origin::Arena { slices, .. } if release.arena.base.is_some() => {
                (start / SLICE).checked_add(u64::from(slices))?.checked_mul(SLICE)?
            }
            Origin::Arena { arena, slice, slices } => {
                arena.checked_add((u64::from(slice) + u64::from(slices)) * SLICE)?
            }
            Origin::Kernel { base: from, bytes } | Origin::Segment { from, bytes } => from.checked_add(bytes)?,
        };
        let fills = room.checked_sub(page.start)?.checked_div(page.block)? == u64::from(reserved);
        let counts = page.used <= page.capacity && page.capacity <= reserved && reserved > 0;
        (counts
            && fills
            && page.block >= 8
            && page.block.is_multiple_of(8)
            && page.start.is_multiple_of(8)
            && end < 1 << 48)
            .then_some(page)
    }

    /// The arena that its memory is from.
    pub fn arena(&self) -> Option<u64> {
        match self.origin {
            Origin::Arena { arena, .. } => Some(arena),
            Origin::Kernel { .. } | Origin::Segment { .. } => None,
        }
    }

    /// The address behind the last block that was ever made.
    pub fn end(&self) -> u64 {
        self.start + self.block * u64::from(self.capacity)
    }

    /// The number of the block that begins at an address.
    pub fn index(&self, at: u64) -> Option<usize> {
        let within = at.checked_sub(self.start)?;
        (at < self.end() && within % self.block == 0).then(|| (within / self.block) as usize)
    }
}
