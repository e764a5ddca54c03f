//! The layouts of mimalloc 2, one row for each, as [`super::release`] has them for mimalloc 3. From `include/mimalloc/types.h` and
//! `src/segment.c`.

/// Releases that have the same structures.
#[derive(Debug, PartialEq, Eq)]
pub struct Older {
    /// The name of these releases in reports.
    pub name: &'static str,
    /// The fields of a segment.
    pub segment: SegmentFields,
    /// The fields of a page. A segment has such a structure for each of its slices.
    pub page: SliceFields,
    /// The fields of the heap of a thread.
    pub heap: HeapFields,
}

/// The fields of `mi_segment_t`.
#[derive(Debug, PartialEq, Eq)]
pub struct SegmentFields {
    /// `MI_SLICES_PER_SEGMENT`. A segment begins at a multiple of this many slices.
    pub most: u64,
    /// `used`: the number of its pages in use.
    pub used: usize,
    /// `cookie`: its address XOR a number that is the same in the whole process.
    pub cookie: usize,
    /// `segment_slices`.
    pub slices: usize,
    /// `segment_info_slices`: the slices that hold its structures.
    pub own: usize,
    /// `kind`, of four bytes: 1 if it has one large page.
    pub kind: usize,
    /// `slice_entries`.
    pub entries: usize,
    /// `slices`: the first entry of the array.
    pub first: usize,
}

/// The fields of `mi_page_t`.
#[derive(Debug, PartialEq, Eq)]
pub struct SliceFields {
    /// Its bytes.
    pub bytes: usize,
    /// `slice_count`, of four bytes.
    pub count: usize,
    /// `capacity`, of two bytes.
    pub capacity: usize,
    /// `reserved`, of two bytes.
    pub reserved: usize,
    /// `free`.
    pub free: usize,
    /// `local_free`.
    pub local_free: usize,
    /// `used`.
    pub used: Number,
    /// `block_size`: 0 in a free slice, 1 in one that is not the first of a page.
    pub block_size: Number,
    /// Where the blocks begin.
    pub start: OlderStart,
    /// A page with one block has fewer unused bytes than this. The first number is for a segment with many pages, the second for a segment
    /// with one page. 1 means that page and block have the same size (`mi_segment_huge_page_alloc`, and in some releases
    /// `mi_segment_span_allocate`). Otherwise a large page ends at a multiple of 512 KiB (`mi_segments_page_alloc`).
    pub slack: [u64; 2],
    /// `xthread_free`: the first block that another thread has freed. The two low bits are flags.
    pub xthread_free: usize,
    /// `xheap`: the heap of the thread that owns it, or 0.
    pub heap: usize,
}

/// A number of two, four or eight bytes.
#[derive(Debug, PartialEq, Eq)]
pub struct Number {
    /// Where it is.
    pub at: usize,
    /// Its bytes.
    pub bytes: usize,
}

/// Where the page's blocks begin.
#[derive(Debug, PartialEq, Eq)]
pub enum OlderStart {
    /// At the address in this field.
    Field(usize),
    /// At this many bytes behind the start of the page's slices, for blocks of 8 to 1024 bytes. Other blocks begin at the start.
    Fixed(u64),
    /// Behind the start of the page's slices. The distance is three blocks for blocks of up to 64 bytes, one block for blocks of up to 512
    /// bytes, and 0 for larger ones.
    Blocks,
}

/// The fields of `mi_heap_t`.
#[derive(Debug, PartialEq, Eq)]
pub struct HeapFields {
    /// `thread_delayed_free`: the first block of full pages that another thread has freed.
    pub delayed: u64,
    /// `page_count`: pages that it owns.
    pub page_count: u64,
    /// `next`: the next heap of the same thread.
    pub next: u64,
    /// `heaps` of `mi_tld_t`, to which a heap points first.
    pub of_thread: u64,
}

/// The releases that can be read, as text for messages.
pub const KNOWN: &str = "2.0.6 to 2.3";

/// All layouts, the newest first.
pub const ALL: &[Older] = &[V2_3, V2_2, V2_1_7, V2_1, V2_0, V2_0_6];

const V2_3: Older = Older {
    name: "2.3",
    segment: SegmentFields {
        most: 512,
        used: 216,
        cookie: 224,
        slices: 248,
        own: 256,
        kind: 264,
        entries: 272,
        first: 288,
    },
    page: SliceFields {
        bytes: 96,
        count: 0,
        capacity: 10,
        reserved: 12,
        free: 16,
        local_free: 24,
        used: Number { at: 32, bytes: 2 },
        block_size: Number { at: 40, bytes: 8 },
        start: OlderStart::Field(48),
        slack: [512 << 10, 1],
        xthread_free: 56,
        heap: 64,
    },
    heap: HeapFields { delayed: 8, page_count: 192, next: 240, of_thread: 24 },
};

const V2_2: Older = Older { name: "2.2 or 2.3", heap: HeapFields { next: 232, ..V2_3.heap }, ..V2_3 };

const V2_1_7: Older = Older {
    name: "2.1.7",
    segment: SegmentFields {
        most: 512,
        used: 208,
        cookie: 216,
        slices: 224,
        own: 232,
        kind: 240,
        entries: 248,
        first: 264,
    },
    heap: HeapFields { next: 216, ..V2_3.heap },
    ..V2_3
};

const V2_1: Older = Older {
    name: "2.1",
    page: SliceFields {
        bytes: 80,
        local_free: 32,
        used: Number { at: 24, bytes: 4 },
        block_size: Number { at: 28, bytes: 4 },
        start: OlderStart::Blocks,
        slack: [1; 2],
        xthread_free: 40,
        heap: 48,
        ..V2_3.page
    },
    heap: HeapFields { delayed: 2840, page_count: 3024, next: 3048, of_thread: 24 },
    ..V2_1_7
};

const V2_0: Older = Older { name: "2.0.9", page: SliceFields { start: OlderStart::Fixed(384), ..V2_1.page }, ..V2_1 };

const V2_0_6: Older = Older {
    name: "2.0.6",
    segment: SegmentFields {
        most: 1024,
        used: 312,
        cookie: 320,
        slices: 328,
        own: 336,
        kind: 344,
        entries: 360,
        first: 368,
    },
    page: SliceFields { start: OlderStart::Fixed(128), slack: [512 << 10; 2], ..V2_1.page },
    heap: HeapFields { page_count: 3016, next: 3040, ..V2_1.heap },
};
