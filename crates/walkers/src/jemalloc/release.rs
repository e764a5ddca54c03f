//! Where jemalloc's structures have their fields, by release, on 64-bit processors. In: nothing. Out: a row for each layout.
//!
//! From `include/jemalloc/internal`: `edata.h`, `rtree.h`, `cache_bin.h` and `sc.h` of 5.3.0 and 5.3.1; `extent_structs.h`, `rtree.h`,
//! `cache_bin.h`, `tcache_structs.h`, `arena_structs_b.h` and `sc.h` of 5.2.1. The size classes depend on `--with-lg-quantum`: Redis builds
//! its own jemalloc with 3. The bits of counts and the bitmaps depend on `--with-lg-page`: Debian builds for arm64 with 16, so that one
//! library runs with every page of a kernel.

/// Releases that have the same structures, built with the same size classes.
#[derive(Debug, PartialEq, Eq)]
pub struct JemallocRelease {
    /// The name of these releases in reports.
    pub name: &'static str,
    /// The bytes of jemalloc's page. The kernel's may be smaller.
    pub page: u64,
    /// The fields of an extent.
    pub extent: ExtentFields,
    /// The fields of an entry of the tree.
    pub leaf: Leaf,
    /// The size classes.
    pub classes: Classes,
    /// The form of a thread cache.
    pub cache: ThreadCacheForm,
    /// How an arena and its count of active pages are found.
    pub arena: JemallocArenaFields,
}

/// The fields of `edata_t`, or `extent_t` before 5.3: 128 bytes where a page has 4 KiB. The first word has bits: 0 to 11 are the arena, 12 is set for a slab.
#[derive(Debug, PartialEq, Eq)]
pub struct ExtentFields {
    /// The lowest bit of the state in the first word.
    pub state: u32,
    /// The number of bits of the state.
    pub state_bits: u32,
    /// The lowest bit of the size class in the first word. It has eight bits.
    pub class: u32,
    /// In the first word: free regions, of ten bits where a page has 4 KiB.
    pub free: u32,
    /// The bit in the first word that is set if the allocator of huge pages made the extent.
    pub huge: Option<u32>,
    /// `e_addr`: the address of the first byte. For a large block it can be moved within the first page (`cache_oblivious`).
    pub at: usize,
    /// `e_size_esn`: bytes in whole pages; the bits below are a number.
    pub bytes: usize,
    /// `e_slab_data.bitmap`: a bit for each region of a slab, set if it is free.
    pub bitmap: usize,
}

/// The fields of a tree's entry, besides the address of the extent. If the entry is one word, bits 48 to 55 are the size class, and bit 0
/// is set for a slab.
#[derive(Debug, PartialEq, Eq)]
pub struct Leaf {
    /// The lowest bit of the state, which has three bits: in the only word, or in the second one.
    pub state: Option<u32>,
    /// The lowest bit of the size class in the second word. It has eight bits.
    pub class: u32,
    /// The bit in the second word that is set for a slab.
    pub slab: u32,
}

/// The size classes (`sc.h`): multiples of a quantum, then four classes in each doubling. With a quantum of 16 bytes, a class of 8 bytes
/// comes first.
#[derive(Debug, PartialEq, Eq)]
pub struct Classes {
    /// `SC_NSIZES`: the number of classes.
    pub count: u8,
    /// `SC_NBINS`: the number of classes for small blocks.
    pub small: u8,
    /// log2 of the quantum.
    pub quantum: u32,
}

/// The form of a thread cache (`cache_bin_t`, 24 bytes for each size class).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadCacheForm {
    /// One array. A record has the low 16 bits of the addresses where its stack begins and ends.
    LowBits,
    /// Two arrays, for small and for large blocks. A record has a count, and the address where its stack ends.
    Counts,
}

/// How an arena and its count of active pages (`nactive`) are found.
#[derive(Debug, PartialEq, Eq)]
pub enum JemallocArenaFields {
    /// The arena is found by its part `pa_shard`, which may be at any distance.
    Shard,
    /// The arena is found by two pointers: a global variable points to the arena, and the arena to its `base_t`.
    Base {
        /// The distance of `nactive`.
        active: u64,
        /// The distance of `base`.
        base: u64,
    },
}

/// The releases that can be read, as text for messages.
pub const KNOWN: &str = "5.2.1, 5.3.0 and 5.3.1";

/// All layouts, the likeliest first.
pub const ALL: &[JemallocRelease] = &[V5_3, V5_3_QUANTUM_8, V5_2, V5_2_QUANTUM_8, V5_3_PAGE_64];

const QUANTUM_16: Classes = Classes { count: 232, small: 36, quantum: 4 };
/// Small blocks are those of less than four pages.
const QUANTUM_16_PAGE_64: Classes = Classes { small: 52, ..QUANTUM_16 };
const QUANTUM_8: Classes = Classes { count: 235, small: 39, quantum: 3 };

const V5_3: JemallocRelease = JemallocRelease {
    name: "5.3",
    page: 4 << 10,
    extent: ExtentFields {
        state: 17,
        state_bits: 3,
        class: 20,
        free: 28,
        huge: Some(14),
        at: 8,
        bytes: 16,
        bitmap: 64,
    },
    leaf: Leaf { state: Some(2), class: 5, slab: 0 },
    classes: QUANTUM_16,
    cache: ThreadCacheForm::LowBits,
    arena: JemallocArenaFields::Shard,
};

const V5_3_QUANTUM_8: JemallocRelease =
    JemallocRelease { name: "5.3, with a quantum of 8 bytes", classes: QUANTUM_8, ..V5_3 };

const V5_2: JemallocRelease = JemallocRelease {
    name: "5.2",
    page: 4 << 10,
    extent: ExtentFields { state: 16, state_bits: 2, class: 18, free: 26, huge: None, ..V5_3.extent },
    leaf: Leaf { state: None, class: 0, slab: 32 },
    classes: QUANTUM_16,
    cache: ThreadCacheForm::Counts,
    arena: JemallocArenaFields::Base { active: 10344, base: 29480 },
};

const V5_2_QUANTUM_8: JemallocRelease = JemallocRelease {
    name: "5.2, with a quantum of 8 bytes",
    classes: QUANTUM_8,
    arena: JemallocArenaFields::Base { active: 10344, base: 29504 },
    ..V5_2
};

const V5_3_PAGE_64: JemallocRelease =
    JemallocRelease { name: "5.3, with pages of 64 KiB", page: 64 << 10, classes: QUANTUM_16_PAGE_64, ..V5_3 };

impl JemallocRelease {
    /// The most regions of a slab: a page of the smallest blocks, which have 8 bytes.
    pub fn most_regions(&self) -> u64 {
        self.page / 8
    }

    /// The bytes of an extent's structure, up to the end of its bitmap.
    pub fn extent_bytes(&self) -> usize {
        self.extent.bitmap + self.most_regions() as usize / 8
    }

    /// Whether a large block of a class has so many bytes, with the page by which it can be moved.
    pub fn is_large(&self, class: u8, bytes: u64) -> bool {
        let classes = &self.classes;
        class >= classes.small
            && class < classes.count
            && (classes.bytes(class - 1) + 1..=classes.bytes(class) + self.page).contains(&bytes)
    }
}

impl Classes {
    /// The block size of a class; 0 if there is no such class.
    pub fn bytes(&self, class: u8) -> u64 {
        let quantum = 1 << self.quantum;
        // With a quantum of 16 bytes, there is one class below the quantum: 8 bytes.
        let tiny = u8::from(self.quantum > 3);
        match class {
            _ if class >= self.count => 0,
            0 if tiny == 1 => 8,
            _ if class < 4 + tiny => quantum * u64::from(class + 1 - tiny),
            _ => {
                let (doubling, step) = ((class - 4 - tiny) / 4, u64::from((class - 4 - tiny) % 4) + 1);
                ((4 + step) * quantum) << doubling
            }
        }
    }

    /// Whether a slab of this class can have this many bytes: its blocks must fill its pages exactly.
    pub fn fit(&self, class: u8, bytes: u64) -> bool {
        let block = self.bytes(class);
        class < self.small && block > 0 && bytes.is_multiple_of(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_those_of_jemalloc() {
        let bytes = |classes: &Classes, all: &[u8]| all.iter().map(|class| classes.bytes(*class)).collect::<Vec<_>>();
        assert_eq!(
            bytes(&QUANTUM_16, &[0, 1, 4, 5, 8, 9, 35, 36, 231, 232]),
            [8, 16, 64, 80, 128, 160, 14 << 10, 16 << 10, 7 << 60, 0]
        );
        assert_eq!(
            bytes(&QUANTUM_8, &[0, 1, 3, 4, 7, 8, 38, 39, 234, 235]),
            [8, 16, 32, 40, 64, 80, 14 << 10, 16 << 10, 7 << 60, 0]
        );
        assert_eq!(bytes(&QUANTUM_16_PAGE_64, &[35, 36, 51, 52]), [14 << 10, 16 << 10, 224 << 10, 256 << 10]);
    }

    #[test]
    fn a_bitmap_has_a_bit_for_each_region() {
        assert_eq!((V5_3.most_regions(), V5_3.extent_bytes()), (512, 128));
        assert_eq!((V5_3_PAGE_64.most_regions(), V5_3_PAGE_64.extent_bytes()), (8192, 64 + 8 * 128));
    }
}
