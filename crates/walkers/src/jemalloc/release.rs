//! Where jemalloc's structures have their fields, by release, on 64-bit processors with pages of 4 KiB. In: nothing. Out: a row for each
//! layout.
//!
//! From `include/jemalloc/internal`: `edata.h`, `rtree.h`, `cache_bin.h` and `sc.h` of 5.3.0 and 5.3.1; `extent_structs.h`, `rtree.h`,
//! `cache_bin.h`, `tcache_structs.h`, `arena_structs_b.h` and `sc.h` of 5.2.1. The size classes depend on `--with-lg-quantum`: Redis builds
//! its own jemalloc with 3.

/// Releases that have the same structures, built with the same size classes.
#[derive(Debug, PartialEq, Eq)]
pub struct JemallocRelease {
    /// Their name in reports.
    pub name: &'static str,
    /// Of an extent.
    pub extent: ExtentFields,
    /// Of an entry of the tree.
    pub leaf: Leaf,
    /// The sizes of blocks.
    pub classes: Classes,
    /// The form of a thread cache.
    pub cache: ThreadCacheForm,
    /// How an arena is found, and its count.
    pub arena: JemallocArenaFields,
}

/// The fields of `edata_t`, or `extent_t` before 5.3: 128 bytes. The first word has bits: 0 to 11 are the arena, 12 is set for a slab.
#[derive(Debug, PartialEq, Eq)]
pub struct ExtentFields {
    /// In the first word: the state.
    pub state: u32,
    /// The bits of a state.
    pub state_bits: u32,
    /// In the first word: the size class, of eight bits.
    pub class: u32,
    /// In the first word: free regions, of ten bits.
    pub free: u32,
    /// In the first word: set if the allocator of huge pages made it.
    pub huge: Option<u32>,
    /// `e_addr`: the first byte; of a large block moved within its first page (`cache_oblivious`).
    pub at: usize,
    /// `e_size_esn`: bytes in whole pages; the low 12 bits are a number.
    pub bytes: usize,
    /// `e_slab_data.bitmap`: a bit for each region of a slab, set if it is free.
    pub bitmap: usize,
}

/// What an entry of the tree has besides the address of the extent. Where it is one word, the size class is in its bits 48 to 55, and bit 0 is
/// set for a slab.
#[derive(Debug, PartialEq, Eq)]
pub struct Leaf {
    /// In the only word, or in the second one: the state, of three bits.
    pub state: Option<u32>,
    /// In the second word: the size class, of eight bits.
    pub class: u32,
    /// In the second word: set for a slab.
    pub slab: u32,
}

/// The sizes of blocks (`sc.h`): a first class, multiples of a quantum, then four classes in each doubling.
#[derive(Debug, PartialEq, Eq)]
pub struct Classes {
    /// `SC_NSIZES`: how many there are.
    pub count: u8,
    /// `SC_NBINS`: how many of them are of small blocks.
    pub small: u8,
    /// log2 of the quantum.
    pub quantum: u32,
}

/// The form of a thread cache (`cache_bin_t`, 24 bytes for each size class).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadCacheForm {
    /// One array. The stacks of addresses begin and end at the low 16 bits that a record has.
    LowBits,
    /// Two arrays, for small and large blocks. A record has a count, and the address at which its stack ends.
    Counts,
}

/// How an arena is found, and its count of pages in active extents.
#[derive(Debug, PartialEq, Eq)]
pub enum JemallocArenaFields {
    /// By `pa_shard` in it, at any distance.
    Shard,
    /// A global variable points to it, and it points to its `base_t`.
    Base {
        /// `nactive`.
        active: u64,
        /// `base`.
        base: u64,
    },
}

/// The releases that can be read, for sentences.
pub const KNOWN: &str = "5.2.1, 5.3.0 and 5.3.1";

/// Every layout, the likeliest first.
pub const ALL: &[JemallocRelease] = &[V5_3, V5_3_QUANTUM_8, V5_2, V5_2_QUANTUM_8];

const QUANTUM_16: Classes = Classes { count: 232, small: 36, quantum: 4 };
const QUANTUM_8: Classes = Classes { count: 235, small: 39, quantum: 3 };

const V5_3: JemallocRelease = JemallocRelease {
    name: "5.3",
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

impl Classes {
    /// The bytes of a class. 0 for what is none.
    pub fn bytes(&self, class: u8) -> u64 {
        let quantum = 1 << self.quantum;
        // With a quantum of 16 bytes there is one class below it.
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

    /// Whether the pages of a slab are those that the class wants: the fewest that its regions fill.
    pub fn fit(&self, class: u8, bytes: u64) -> bool {
        let block = self.bytes(class);
        class < self.small && block > 0 && bytes.is_multiple_of(block)
    }

    /// Whether a large block of a class has so many bytes, with the page by which it can be moved.
    pub fn is_large(&self, class: u8, bytes: u64) -> bool {
        class >= self.small
            && class < self.count
            && (self.bytes(class - 1) + 1..=self.bytes(class) + crate::PAGE).contains(&bytes)
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
    }
}
