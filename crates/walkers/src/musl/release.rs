//! Where musl's mallocng has its fields, on 64-bit processors: bytes from the start of each structure. From `src/malloc/mallocng/meta.h` and
//! `malloc.c`. In: nothing. Out: a row for each layout.

/// Releases that have the same structures.
#[derive(Debug, PartialEq, Eq)]
pub struct MuslRelease {
    /// The name of these releases in reports.
    pub name: &'static str,
    /// The fields of `struct malloc_context`.
    pub context: ContextFields,
    /// The fields of `struct meta_area`.
    pub area: AreaFields,
    /// The fields of `struct meta`.
    pub meta: MetaFields,
}

/// The fields of `struct malloc_context`, a global variable. `secret` is the first one.
#[derive(Debug, PartialEq, Eq)]
pub struct ContextFields {
    /// Its bytes.
    pub bytes: usize,
    /// `free_meta_head`: the ring of metas without a group.
    pub free: usize,
    /// `avail_meta`: the first meta that was never used.
    pub next: usize,
    /// `avail_meta_count`: the number of metas in this area that were never used.
    pub left: usize,
    /// `meta_area_head`.
    pub head: usize,
    /// `meta_area_tail`.
    pub tail: usize,
    /// `usage_by_class`: the number of slots of each class.
    pub usage: usize,
}

/// The fields of `struct meta_area`. The area begins with the secret number, and fills a page of 4 KiB.
#[derive(Debug, PartialEq, Eq)]
pub struct AreaFields {
    /// `next`.
    pub next: usize,
    /// `nslots`.
    pub count: usize,
    /// `slots`: the metas.
    pub slots: usize,
}

/// The fields of `struct meta`.
#[derive(Debug, PartialEq, Eq)]
pub struct MetaFields {
    /// Its bytes.
    pub bytes: usize,
    /// `next`, in the ring.
    pub next: usize,
    /// `mem`: the group.
    pub group: usize,
    /// `avail_mask` and `freed_mask`, of four bytes each.
    pub masks: usize,
    /// A word of bits: 0 to 4 are `last_idx`, 5 is `freeable`, 6 to 11 are `sizeclass`, the rest is `maplen`.
    pub bits: usize,
}

impl MuslRelease {
    /// The number of metas of an area.
    pub fn metas(&self) -> u64 {
        (AREA as usize - self.area.slots) as u64 / self.meta.bytes as u64
    }
}

/// The bytes of an area of metas.
pub const AREA: u64 = 4096;

/// `UNIT`: slots are multiples of it, and the head of a group has this size.
pub const UNIT: u64 = 16;

/// `IB`: the bytes of a block's head, which are the last bytes of the slot before.
pub const HEAD: u64 = 4;

/// The class of a block with its own mapping.
pub const LARGE: u8 = 63;

/// `size_classes`: the size of a slot of each class, in units.
pub const CLASSES: [u64; 48] = [
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 18, 20, 25, 31, 36, 42, 50, 63, 72, 84, 102, 127, 146, 170, 204, 255, 292,
    340, 409, 511, 584, 682, 818, 1023, 1169, 1364, 1637, 2047, 2340, 2730, 3276, 4095, 4680, 5460, 6552, 8191,
];

/// All layouts, the likeliest first.
pub const ALL: &[MuslRelease] = &[NG];

const NG: MuslRelease = MuslRelease {
    name: "mallocng",
    context: ContextFields { bytes: 928, free: 16, next: 24, left: 32, head: 56, tail: 64, usage: 464 },
    area: AreaFields { next: 8, count: 16, slots: 24 },
    meta: MetaFields { bytes: 40, next: 8, group: 16, masks: 24, bits: 32 },
};
