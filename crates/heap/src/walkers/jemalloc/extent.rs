//! An extent: pages that jemalloc has in one state. In: the 128 bytes of its `edata_t`. Out: its fields.
//!
//! The same in the releases 5.3.0 and 5.3.1 (`include/jemalloc/internal/edata.h`), for pages of 4 KiB:
//!
//! | offset | field | |
//! |---|---|---|
//! | 0 | `e_bits` | bits 0 to 11 arena, 12 slab, 14 `pai`, 17 to 19 state, 20 to 27 size class, 28 to 37 free regions |
//! | 8 | `e_addr` | the first byte; of a large block moved within its first page (`cache_oblivious`) |
//! | 16 | `e_size_esn` | bytes in whole pages; the low 12 bits are a number |
//! | 64 | `e_slab_data.bitmap` | a bit for each region of a slab, set if it is free |

use super::rtree::Entry;
use crate::PAGE;

/// `SC_NSIZES`: how many size classes there are.
pub const CLASSES: u8 = 232;

/// `SC_NBINS`: how many of them are of small blocks.
const SMALL: u8 = 36;

/// What an extent is used for: `extent_state_e`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Has blocks.
    Active,
    /// Free, not yet given back.
    Dirty,
    /// Free, given back lazily.
    Muzzy,
    /// Address space without memory.
    Retained,
    /// On its way from one state to another.
    Moving,
}

/// Where a free region's bit is.
pub type Bitmap = [u64; 8];

/// An extent.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// The first byte. A large block begins here.
    pub at: u64,
    /// Bytes, in whole pages.
    pub bytes: u64,
    bits: u64,
}

impl Extent {
    /// Reads the fields. `None` if they cannot be those of an extent.
    pub fn parse(bytes: &[u8]) -> Option<Extent> {
        let extent = Extent { bits: word(bytes, 0)?, at: word(bytes, 8)?, bytes: word(bytes, 16)? & !(PAGE - 1) };
        let end = extent.from().checked_add(extent.bytes)?;
        (extent.bytes > 0 && end < 1 << 57 && extent.bits >> 17 & 7 <= 5).then_some(extent)
    }

    /// The large block that an entry of the tree tells of. `None` if it is none, or its class does not fit its pages.
    pub fn of_entry(entry: &Entry, bytes: u64, arena: u64) -> Option<Extent> {
        let (state, class) = (u64::from(entry.state) << 17, u64::from(entry.class) << 20);
        let bits = arena & 0xfff | u64::from(entry.slab) << 12 | state | class;
        let extent = Extent { at: entry.page * PAGE, bytes, bits };
        let range = class_bytes(entry.class.checked_sub(1)?) + 1..=class_bytes(entry.class) + PAGE;
        let large = extent.state() == Use::Active && !entry.slab && entry.class >= SMALL;
        (large && range.contains(&bytes)).then_some(extent)
    }

    /// Its first page.
    pub fn from(&self) -> u64 {
        self.at & !(PAGE - 1)
    }

    /// The first page behind it.
    pub fn to(&self) -> u64 {
        self.from() + self.bytes
    }

    /// The number of its arena.
    pub fn arena(&self) -> u32 {
        (self.bits & 0xfff) as u32
    }

    /// Whether it has equal regions for small blocks.
    pub fn slab(&self) -> bool {
        self.bits >> 12 & 1 == 1
    }

    /// Whether the allocator of huge pages (`hpa:true`) made it.
    pub fn of_huge_pages(&self) -> bool {
        self.bits >> 14 & 1 == 1
    }

    /// What it is used for.
    pub fn state(&self) -> Use {
        match self.bits >> 17 & 7 {
            0 => Use::Active,
            1 => Use::Dirty,
            2 => Use::Muzzy,
            3 => Use::Retained,
            _ => Use::Moving,
        }
    }

    /// Its size class.
    pub fn class(&self) -> u8 {
        (self.bits >> 20) as u8
    }

    /// How many of a slab's regions are free.
    pub fn free(&self) -> u64 {
        self.bits >> 28 & 0x3ff
    }

    /// Bytes of each region.
    pub fn block(&self) -> u64 {
        class_bytes(self.class())
    }

    /// The usable bytes of a large block whose extent has `pad` bytes more.
    ///
    /// The release 5.3.1 has no size classes for them (`disable_large_size_classes:true`): what the extent has is usable. In 5.3.0 that
    /// is the class. A small block has an extent to itself if the profiler picked it.
    pub fn usable(&self, pad: u64) -> u64 {
        match self.class() < SMALL {
            true => self.block(),
            false => self.bytes.saturating_sub(pad),
        }
    }

    /// Whether this large extent can only be one that has a page more than its block.
    pub fn is_padded(&self) -> bool {
        !self.at.is_multiple_of(PAGE) || self.class() >= SMALL && self.bytes > self.block()
    }

    /// How many regions a slab has; at most 512.
    pub fn regions(&self) -> u64 {
        self.bytes.checked_div(self.block()).unwrap_or(0)
    }

    /// The bitmap of a slab, if it agrees with the count of free regions.
    pub fn bitmap(&self, bytes: &[u8]) -> Option<Bitmap> {
        let mut bitmap = Bitmap::default();
        let words = (self.regions() as usize).div_ceil(64);
        for (at, bits) in bitmap.iter_mut().enumerate().take(words) {
            *bits = word(bytes, 64 + 8 * at)?;
        }
        let free = bitmap.iter().map(|bits| u64::from(bits.count_ones())).sum::<u64>();
        let beyond = self.regions() % 64;
        let whole = beyond == 0 || bitmap.get(words - 1).is_some_and(|last| last >> beyond == 0);
        (words <= bitmap.len() && whole && free == self.free()).then_some(bitmap)
    }
}

/// The bytes of a size class (`sc.c`): 8, then multiples of 16, four in each doubling. 0 for what is none.
pub fn class_bytes(class: u8) -> u64 {
    match class {
        0 => 8,
        1..=4 => 16 * u64::from(class),
        5..CLASSES => {
            let (doubling, step) = ((class - 5) / 4, u64::from((class - 5) % 4) + 1);
            (64 << doubling) + (step << (doubling + 4))
        }
        _ => 0,
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}
