//! An extent: pages that jemalloc has in one state. In: the bytes of its `edata_t`, and the release. Out: its fields.

use super::release::{Classes, JemallocRelease};
use super::rtree::LeafEntry;

/// The state of an extent: `extent_state_e`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtentUse {
    /// Has blocks.
    Active,
    /// Free, and not yet given back to the kernel.
    Dirty,
    /// Free, and given back lazily (`MADV_FREE`).
    Muzzy,
    /// Address space without memory.
    Retained,
    /// Moving from one state to another.
    Moving,
}

/// An extent.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// The address of its first byte. A large block begins here.
    pub at: u64,
    /// Its bytes, in whole pages.
    pub bytes: u64,
    bits: u64,
    release: &'static JemallocRelease,
}

impl Extent {
    /// Reads the fields. `None` if they cannot be those of an extent.
    pub fn parse(bytes: &[u8], release: &'static JemallocRelease) -> Option<Extent> {
        let fields = &release.extent;
        let (at, size) = (word(bytes, fields.at)?, word(bytes, fields.bytes)? & !(release.page - 1));
        let extent = Extent { bits: word(bytes, 0)?, at, bytes: size, release };
        let end = extent.from().checked_add(extent.bytes)?;
        (extent.bytes > 0 && end < 1 << 57 && extent.state_number() <= 5).then_some(extent)
    }

    /// The large block that an entry of the tree describes. `None` if the entry describes something else, or its class does not fit the
    /// number of its pages.
    pub fn of_entry(entry: &LeafEntry, bytes: u64, arena: u64, release: &'static JemallocRelease) -> Option<Extent> {
        let fields = &release.extent;
        let state = u64::from(entry.state.unwrap_or(0)) << fields.state;
        let bits = arena & 0xfff | u64::from(entry.slab) << 12 | state | u64::from(entry.class) << fields.class;
        let extent = Extent { at: entry.page.checked_mul(release.page)?, bytes, bits, release };
        let large = extent.state() == ExtentUse::Active && !entry.slab;
        (large && release.is_large(entry.class, bytes)).then_some(extent)
    }

    fn classes(&self) -> &'static Classes {
        &self.release.classes
    }

    /// The address of its first page.
    pub fn from(&self) -> u64 {
        self.at & !(self.release.page - 1)
    }

    /// The address of the first page behind it.
    pub fn to(&self) -> u64 {
        self.from() + self.bytes
    }

    /// The number of its arena.
    pub fn arena(&self) -> u32 {
        (self.bits & 0xfff) as u32
    }

    /// Whether it is a slab: regions of one size for small blocks.
    pub fn slab(&self) -> bool {
        self.bits >> 12 & 1 == 1
    }

    /// Whether jemalloc's allocator of huge pages (`hpa:true`) made it.
    pub fn of_huge_pages(&self) -> bool {
        self.release.extent.huge.is_some_and(|bit| self.bits >> bit & 1 == 1)
    }

    /// Its state as a number of this release.
    pub fn state_number(&self) -> u8 {
        (self.bits >> self.release.extent.state & ((1 << self.release.extent.state_bits) - 1)) as u8
    }

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

    /// The number of free regions of a slab.
    pub fn free(&self) -> u64 {
        self.bits >> self.release.extent.free & (2 * self.release.most_regions() - 1)
    }

    /// The bytes of each region of a slab.
    pub fn block(&self) -> u64 {
        self.classes().bytes(self.class())
    }

    /// Whether the number of its pages fits its size class. A small block that the profiler has sampled has an extent to itself.
    pub fn fits_its_class(&self) -> bool {
        match (self.slab(), self.class() < self.classes().small) {
            (true, _) => self.classes().fit(self.class(), self.bytes),
            (false, true) => true,
            (false, false) => self.release.is_large(self.class(), self.bytes),
        }
    }

    /// The usable bytes of a large block. Its extent has `pad` bytes more than the block.
    ///
    /// Release 5.3.1 has no size classes for large blocks (`disable_large_size_classes:true`): all bytes of the extent are usable. In
    /// earlier releases the usable bytes are the size of the class, which is the same here. A small block that the profiler has sampled has
    /// an extent to itself.
    pub fn usable(&self, pad: u64) -> u64 {
        match self.class() < self.classes().small {
            true => self.block(),
            false => self.bytes.saturating_sub(pad),
        }
    }

    /// Whether this large extent must have one page more than its block.
    pub fn is_padded(&self) -> bool {
        !self.at.is_multiple_of(self.release.page) || self.class() >= self.classes().small && self.bytes > self.block()
    }

    /// How many regions a slab has.
    pub fn regions(&self) -> u64 {
        self.bytes.checked_div(self.block()).unwrap_or(0)
    }

    /// The bitmap of a slab, if it agrees with the count of free regions: a bit for each region, set if it is free.
    pub fn bitmap(&self, bytes: &[u8]) -> Option<Vec<u64>> {
        let regions = self.regions();
        (regions <= self.release.most_regions()).then_some(())?;
        let words = 0..regions.div_ceil(64) as usize;
        let bitmap = words.map(|at| word(bytes, self.release.extent.bitmap + 8 * at)).collect::<Option<Vec<u64>>>()?;
        let free = bitmap.iter().map(|bits| u64::from(bits.count_ones())).sum::<u64>();
        let beyond = regions % 64;
        let whole = beyond == 0 || bitmap.last().is_some_and(|last| last >> beyond == 0);
        (whole && free == self.free()).then_some(bitmap)
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}
