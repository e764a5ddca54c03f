//! The layouts of gperftools' tcmalloc, one row for each: distances in bytes from the start of each structure, on 64-bit processors. From
//! `src/span.h`, `central_freelist.h`, `thread_cache.h`, `page_heap.h` and `common.h`.

/// Releases that have the same structures.
#[derive(Debug, PartialEq, Eq)]
pub struct TcmallocRelease {
    /// The name of these releases in reports.
    pub name: &'static str,
    /// `kPageShift`: log2 of the bytes of a page of tcmalloc.
    pub page_shift: u32,
    /// log2 of the slots of the page map's root.
    pub root_bits: u32,
    /// log2 of the entries of a leaf.
    pub leaf_bits: u32,
    /// The fields of a span.
    pub span: SpanFields,
    /// The fields of the central list of a size class.
    pub central: CentralFields,
    /// The fields of a thread cache.
    pub cache: CacheFields,
    /// The distance from the root's first slot to `stats_` of the page heap: bytes from the system, of free spans, and of returned spans.
    pub stats: u64,
}

/// The fields of `Span`.
#[derive(Debug, PartialEq, Eq)]
pub struct SpanFields {
    /// Its bytes.
    pub bytes: usize,
    /// `start`: the number of its first page.
    pub start: usize,
    /// `length`: the number of its pages.
    pub length: usize,
    /// `objects`: the first free block.
    pub objects: usize,
    /// A word of bits: 0 to 15 are the number of blocks that are not free, 16 to 23 the size class, 24 and 25 the list that has the span.
    pub bits: usize,
}

/// The fields of `CentralFreeList`.
#[derive(Debug, PartialEq, Eq)]
pub struct CentralFields {
    /// The bytes of one list. The lists of all classes are an array.
    pub bytes: u64,
    /// `size_class_`.
    pub class: u64,
    /// `counter_`: the number of free blocks in spans.
    pub counter: u64,
    /// `tc_slots_`: chains of free blocks that are in no span, each with its first and its last block.
    pub slots: u64,
    /// `used_slots_`, of four bytes.
    pub used: u64,
    /// `kMaxNumTransferEntries`.
    pub most: u64,
}

/// The fields of `ThreadCache`, which begins with a list for each class.
#[derive(Debug, PartialEq, Eq)]
pub struct CacheFields {
    /// The bytes of a list. It begins with the first block and its length, which has four bytes.
    pub list: usize,
    /// The distance, in a list, of the size of its blocks, of four bytes.
    pub size: usize,
    /// `kClassSizesMax`.
    pub lists: usize,
}

/// The releases that can be read, as text for messages.
pub const KNOWN: &str = "gperftools 2.8 to 2.18";

/// All layouts, the likeliest first.
pub const ALL: &[TcmallocRelease] = &[V2];

const V2: TcmallocRelease = TcmallocRelease {
    name: "gperftools 2",
    page_shift: 13,
    root_bits: 17,
    leaf_bits: 18,
    span: SpanFields { bytes: 48, start: 0, length: 8, objects: 32, bits: 40 },
    central: CentralFields { bytes: 1216, class: 8, counter: 120, slots: 128, used: 1152, most: 64 },
    cache: CacheFields { list: 32, size: 24, lists: 128 },
    // Before `stats_` come the root and its allocator, two sets, and 128 pairs of list heads.
    stats: (8 << 17) + 8 + 2 * 48 + 128 * 2 * 48,
};
