//! An extent: pages that jemalloc has in one state. In: the 128 bytes of its `edata_t`, and the release. Out: its fields.

use super::release::{Classes, JemallocRelease};
use super::rtree::LeafEntry;
use crate::PAGE;

/// What an extent is used for: `extent_state_e`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtentUse {
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
    release: &'static JemallocRelease,
}

impl Extent {
    /// Reads the fields. `None` if they cannot be those of an extent.
    pub fn parse(bytes: &[u8], release: &'static JemallocRelease) -> Option<Extent> {
        let fields = &release.extent;
        let (at, size) = (word(bytes, fields.at)?, word(bytes, fields.bytes)? & !(PAGE - 1));
        let extent = Extent { bits: word(bytes, 0)?, at, bytes: size, release };
        let end = extent.from().checked_add(extent.bytes)?;
        (extent.bytes > 0 && end < 1 << 57 && extent.state_number() <= 5).then_some(extent)
    }

    /// The large block that an entry of the tree tells of. `None` if it is none, or its class does not fit its pages.
    pub fn of_entry(entry: &LeafEntry, bytes: u64, arena: u64, release: &'static JemallocRelease) -> Option<Extent> {
        let fields = &release.extent;
        let state = u64::from(entry.state.unwrap_or(0)) << fields.state;
        let bits = arena & 0xfff | u64::from(entry.slab) << 12 | state | u64::from(entry.class) << fields.class;
        let extent = Extent { at: entry.page * PAGE, bytes, bits, release };
        let large = extent.state() == ExtentUse::Active && !entry.slab;
        (large && release.classes.is_large(entry.class, bytes)).then_some(extent)
    }

    fn classes(&self) -> &'static Classes {
        &self.release.classes
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
        self.release.extent.huge.is_some_and(|bit| self.bits >> bit & 1 == 1)
    }

    /// What it is used for, as the release has it.
    pub fn state_number(&self) -> u8 {
        (self.bits >> self.release.extent.state & ((1 << self.release.extent.state_bits) - 1)) as u8
    }

    /// What it is used for.
    pub fn state(&self) -> ExtentUse {
        match self.state_number() {
            0 => ExtentUse::Active,
            1 => ExtentUse::Dirty,
            2 => ExtentUse::Muzzy,
            3 => ExtentUse::Retained,
            _ => ExtentUse::Moving,
        }
    }

    /// Its size class.
    pub fn class(&self) -> u8 {
        (self.bits >> self.release.extent.class) as u8
    }

    /// How many of a slab's regions are free.
    pub fn free(&self) -> u64 {
        self.bits >> self.release.extent.free & 0x3ff
    }

    /// Bytes of each region.
    pub fn block(&self) -> u64 {
        self.classes().bytes(self.class())
    }

    /// Whether its pages are as many as its class wants. A small block has an extent to itself if the profiler picked it.
    pub fn fits_its_class(&self) -> bool {
        match (self.slab(), self.class() < self.classes().small) {
            (true, _) => self.classes().fit(self.class(), self.bytes),
            (false, true) => true,
            (false, false) => self.classes().is_large(self.class(), self.bytes),
        }
    }

    /// The usable bytes of a large block whose extent has `pad` bytes more.
    ///
    /// The release 5.3.1 has no size classes for them (`disable_large_size_classes:true`): what the extent has is usable. In earlier ones that
    /// is the class. A small block has an extent to itself if the profiler picked it.
    pub fn usable(&self, pad: u64) -> u64 {
        match self.class() < self.classes().small {
            true => self.block(),
            false => self.bytes.saturating_sub(pad),
        }
    }

    /// Whether this large extent can only be one that has a page more than its block.
    pub fn is_padded(&self) -> bool {
        !self.at.is_multiple_of(PAGE) || self.class() >= self.classes().small && self.bytes > self.block()
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
            *bits = word(bytes, self.release.extent.bitmap + 8 * at)?;
        }
        let free = bitmap.iter().map(|bits| u64::from(bits.count_ones())).sum::<u64>();
        let beyond = self.regions() % 64;
        let whole = beyond == 0 || bitmap.get(words - 1).is_some_and(|last| last >> beyond == 0);
        (words <= bitmap.len() && whole && free == self.free()).then_some(bitmap)
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}
