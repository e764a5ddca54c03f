//! Where mimalloc's structures have their fields, by release: bytes from the start of each, on 64-bit processors, without `MI_SECURE` and
//! `MI_DEBUG`. From `include/mimalloc/types.h`. In: nothing. Out: a row for each layout.

/// Releases that have the same structures.
#[derive(Debug, PartialEq, Eq)]
pub struct MimallocRelease {
    /// Their name in reports.
    pub name: &'static str,
    /// Bytes of the page map before the root's first entry: it begins with the count of entries. 0 if the root begins at once.
    pub map_head: u64,
    /// Of a page.
    pub page: PageFields,
    /// Of an arena.
    pub arena: MimallocArenaFields,
    /// Of the process's list of arenas.
    pub process: ProcessFields,
    /// Of the heap of a thread.
    pub owner: OwnerFields,
}

/// The fields of `mi_page_t`.
#[derive(Debug, PartialEq, Eq)]
pub struct PageFields {
    /// Its bytes.
    pub bytes: usize,
    /// `xthread_id`: the thread that owns it, with two flags in the low bits; 0 or 4 if none does.
    pub thread: usize,
    /// `free`: the first free block.
    pub free: usize,
    /// `used`: blocks in use, of two bytes.
    pub used: usize,
    /// `capacity`: blocks that were ever made, of two bytes.
    pub capacity: usize,
    /// `reserved`: blocks that there is room for, of two bytes.
    pub reserved: usize,
    /// `local_free`: the first block that the owner has freed, not yet in `free`.
    pub local_free: usize,
    /// `xthread_free`: the first block that another thread has freed. The low bit is a flag. `used` counts these.
    pub xthread_free: usize,
    /// `block_size`.
    pub block_size: usize,
    /// Where the blocks begin.
    pub start: BlockStart,
    /// `theap`, or `heap` before 3.3: the owner's heap.
    pub owner: usize,
    /// `memid`: an arena with slice and count, or base and size.
    pub memid: usize,
    /// The kind in `memid`.
    pub memid_kind: usize,
    /// `MI_MEM_ARENA`: the kind of memory from an arena. The kinds below are the kernel's and others.
    pub arena_kind: u32,
}

/// Where the blocks of a page begin.
#[derive(Debug, PartialEq, Eq)]
pub enum BlockStart {
    /// At the address in this field.
    Field(usize),
    /// Behind the page's structure, by as many times some bytes as this field says.
    Distance {
        /// The field.
        field: usize,
        /// The bytes.
        unit: u64,
    },
}

/// The fields of `mi_arena_t`.
#[derive(Debug, PartialEq, Eq)]
pub struct MimallocArenaFields {
    /// `subproc`: the process's list.
    pub subproc: u64,
    /// The address of its first slice. `None` if the arena itself is there.
    pub base: Option<u64>,
    /// `slice_count`.
    pub slice_count: u64,
    /// `info_slices`: those that it keeps for its structures.
    pub info_slices: u64,
    /// The bitmap `slices_free`.
    pub slices_free: u64,
    /// The bitmap `slices_committed`, which lies behind the one before.
    pub slices_committed: u64,
    /// The bitmap `pages` of the main heap.
    pub pages: u64,
    /// Where the chunks of `pages` begin in that bitmap (`src/bitmap.h`).
    pub pages_chunks: u64,
}

/// The fields of `mi_subproc_t`, and how it is found.
#[derive(Debug, PartialEq, Eq)]
pub struct ProcessFields {
    /// `subproc` of `mi_tld_t`.
    pub of_thread: u64,
    /// `arena_count`.
    pub arena_count: u64,
    /// `arenas`: their addresses.
    pub arenas: u64,
    /// `MI_MAX_ARENAS`.
    pub most: u64,
}

/// The fields of the heap that a thread has: `mi_theap_t`, or `mi_heap_t` before 3.3.
#[derive(Debug, PartialEq, Eq)]
pub struct OwnerFields {
    /// `tld`: what belongs to the thread, `mi_tld_t`.
    pub tld: u64,
    /// `page_count`: pages that it owns.
    pub page_count: u64,
    /// How all of them are found, where the process lists them. Otherwise those are known that own a page.
    pub lists: Option<OwnerLists>,
}

/// The lists by which a process has the heaps of all threads.
#[derive(Debug, PartialEq, Eq)]
pub struct OwnerLists {
    /// `heaps` of `mi_subproc_t`: the first heap.
    pub heaps: u64,
    /// `next` of `mi_heap_t`.
    pub next: u64,
    /// `theaps` of `mi_heap_t`: its first part that a thread has.
    pub theaps: u64,
    /// `hnext` of `mi_theap_t`: the next part of the same heap.
    pub theaps_next: u64,
}

/// The releases that can be read, for sentences.
pub const KNOWN: &str = "3.0 to 3.4 and 3.6";

/// Every layout. A map is read by the one that contradicts it least, and by the first of several.
pub const ALL: &[MimallocRelease] = &[V3_3, V3_6, V3_4, V3_2, V3_1, V3_0];

const V3_3: MimallocRelease = MimallocRelease {
    name: "3.3",
    map_head: 0,
    page: PageFields {
        bytes: 120,
        thread: 0,
        free: 8,
        used: 16,
        capacity: 18,
        reserved: 20,
        local_free: 24,
        xthread_free: 32,
        block_size: 40,
        start: BlockStart::Field(48),
        owner: 56,
        memid: 96,
        memid_kind: 112,
        arena_kind: 7,
    },
    arena: MimallocArenaFields {
        subproc: 24,
        base: None,
        slice_count: 40,
        info_slices: 48,
        slices_free: 104,
        slices_committed: 112,
        pages: 144,
        pages_chunks: 128,
    },
    process: ProcessFields { of_thread: 24, arena_count: 24, arenas: 32, most: 160 },
    owner: OwnerFields {
        tld: 0,
        page_count: 176,
        lists: Some(OwnerLists { heaps: 1368, next: 16, theaps: 56, theaps_next: 240 }),
    },
};

const V3_1: MimallocRelease = MimallocRelease {
    name: "3.1",
    map_head: 0,
    page: PageFields { owner: 64, ..V3_3.page },
    arena: MimallocArenaFields {
        slice_count: 32,
        info_slices: 40,
        slices_free: 80,
        slices_committed: 88,
        pages: 112,
        ..V3_3.arena
    },
    process: ProcessFields { arena_count: 0, arenas: 8, ..V3_3.process },
    owner: OwnerFields { tld: 0, page_count: 168, lists: None },
};

const V3_0: MimallocRelease = MimallocRelease {
    name: "3.0",
    arena: MimallocArenaFields { slices_free: 64, slices_committed: 72, pages: 96, ..V3_1.arena },
    process: ProcessFields { of_thread: 16, ..V3_1.process },
    owner: OwnerFields { tld: 0, page_count: 160, lists: None },
    ..V3_1
};

// The others were found without headers, in processes: docs/lab/layouts.md says how.

const V3_2: MimallocRelease = MimallocRelease {
    name: "3.2",
    arena: MimallocArenaFields { slices_free: 88, slices_committed: 96, pages: 120, ..V3_3.arena },
    owner: OwnerFields {
        tld: 0,
        page_count: 168,
        lists: Some(OwnerLists { heaps: 1360, next: 16, theaps: 56, theaps_next: 224 }),
    },
    ..V3_3
};

const V3_4: MimallocRelease = MimallocRelease {
    name: "3.4",
    page: PageFields {
        bytes: 112,
        start: BlockStart::Distance { field: 48, unit: 8 },
        memid: 88,
        memid_kind: 104,
        ..V3_3.page
    },
    owner: OwnerFields {
        tld: 0,
        page_count: 184,
        lists: Some(OwnerLists { heaps: 1360, next: 16, theaps: 56, theaps_next: 248 }),
    },
    ..V3_3
};

const V3_6: MimallocRelease = MimallocRelease {
    name: "3.6",
    map_head: 80,
    page: PageFields {
        bytes: 128,
        thread: 8,
        free: 16,
        local_free: 24,
        block_size: 32,
        used: 40,
        start: BlockStart::Distance { field: 48, unit: 1 },
        capacity: 56,
        reserved: 58,
        xthread_free: 64,
        owner: 72,
        memid: 104,
        memid_kind: 120,
        arena_kind: 6,
    },
    arena: MimallocArenaFields {
        base: Some(40),
        slice_count: 48,
        info_slices: 56,
        slices_free: 112,
        slices_committed: 120,
        pages: 152,
        ..V3_3.arena
    },
    process: ProcessFields { arena_count: 32, arenas: 40, ..V3_3.process },
    owner: OwnerFields {
        tld: 1032,
        page_count: 1312,
        lists: Some(OwnerLists { heaps: 1368, next: 16, theaps: 72, theaps_next: 1384 }),
    },
};
