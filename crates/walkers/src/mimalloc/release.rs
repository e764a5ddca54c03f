//! The layouts of mimalloc 3, one row for each: distances in bytes from the start of each structure, on 64-bit processors, without
//! `MI_SECURE` and `MI_DEBUG`. From `include/mimalloc/types.h`.

/// Releases that have the same structures.
#[derive(Debug, PartialEq, Eq)]
pub struct MimallocRelease {
    /// The name of these releases in reports.
    pub name: &'static str,
    /// The bytes of the page map before the root's first entry, where the count of entries is. 0 if the map begins with the root.
    pub map_head: u64,
    /// The fields of a page.
    pub page: PageFields,
    /// The fields of an arena.
    pub arena: MimallocArenaFields,
    /// The fields with the process's list of arenas.
    pub process: ProcessFields,
    /// The fields of the heap of a thread.
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
    /// `used`, of two bytes: the number of used blocks.
    pub used: usize,
    /// `capacity`, of two bytes: the number of blocks that were ever made.
    pub capacity: usize,
    /// `reserved`, of two bytes: the number of blocks that the page has room for.
    pub reserved: usize,
    /// `local_free`: the first block that the owner has freed and not yet put into `free`.
    pub local_free: usize,
    /// `xthread_free`: the first block that another thread has freed. The low bit is a flag. `used` includes these blocks.
    pub xthread_free: usize,
    /// `block_size`.
    pub block_size: usize,
    /// Where the blocks begin.
    pub start: BlockStart,
    /// `theap`, or `heap` before 3.3: the owner's heap.
    pub owner: usize,
    /// `memid`: an arena with slice and count, or an address and a size.
    pub memid: usize,
    /// The kind of memory in `memid`.
    pub memid_kind: usize,
    /// `MI_MEM_ARENA`: the number of the kind "from an arena". Lower numbers are the kernel's and other memory.
    pub arena_kind: u32,
}

/// Where the blocks of a page begin.
#[derive(Debug, PartialEq, Eq)]
pub enum BlockStart {
    /// At the address in this field.
    Field(usize),
    /// At the page's structure, plus `unit` times the number in this field.
    Distance {
        /// The distance of the field.
        field: usize,
        /// The bytes by which the number is multiplied.
        unit: u64,
    },
}

/// The fields of `mi_arena_t`.
#[derive(Debug, PartialEq, Eq)]
pub struct MimallocArenaFields {
    /// `subproc`: the address of the `mi_subproc_t`, which lists the arenas.
    pub subproc: u64,
    /// The field with the address of its first slice. `None` if the arena itself begins there.
    pub base: Option<u64>,
    /// `slice_count`.
    pub slice_count: u64,
    /// `info_slices`: the slices that hold its structures.
    pub info_slices: u64,
    /// The bitmap `slices_free`.
    pub slices_free: u64,
    /// The bitmap `slices_committed`, which lies directly behind `slices_free`.
    pub slices_committed: u64,
    /// The bitmap `pages`: where a page of the main heap begins.
    pub pages: u64,
    /// The distance of the chunks from the start of the bitmap `pages` (`src/bitmap.h`).
    pub pages_chunks: u64,
}

/// The fields of `mi_subproc_t`, and how to find it.
#[derive(Debug, PartialEq, Eq)]
pub struct ProcessFields {
    /// `subproc` in `mi_tld_t`.
    pub of_thread: u64,
    /// `arena_count`.
    pub arena_count: u64,
    /// `arenas`: the addresses of the arenas.
    pub arenas: u64,
    /// `MI_MAX_ARENAS`.
    pub most: u64,
}

/// The fields of a thread's heap: `mi_theap_t`, or `mi_heap_t` before 3.3.
#[derive(Debug, PartialEq, Eq)]
pub struct OwnerFields {
    /// `tld`: the address of the thread's `mi_tld_t`.
    pub tld: u64,
    /// `page_count`: the number of pages that it owns.
    pub page_count: u64,
    /// The lists with all these heaps, if the process has such lists. Otherwise only heaps that own a page are found.
    pub lists: Option<OwnerLists>,
}

/// The lists that lead from a process to the heaps of all threads.
#[derive(Debug, PartialEq, Eq)]
pub struct OwnerLists {
    /// `heaps` in `mi_subproc_t`: the first heap.
    pub heaps: u64,
    /// `next` in `mi_heap_t`.
    pub next: u64,
    /// `theaps` in `mi_heap_t`: the first thread's part of the heap.
    pub theaps: u64,
    /// `hnext` in `mi_theap_t`: the next thread's part of the same heap.
    pub theaps_next: u64,
}

/// The releases that can be read, as text for messages.
pub const KNOWN: &str = "3.0 to 3.4 and 3.6";

/// All layouts. A map is read with the one that causes the fewest contradictions. Of several such layouts, the first is used.
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

// The distances of the others were found in processes, without header files: docs/lab/layouts.md says how.

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
