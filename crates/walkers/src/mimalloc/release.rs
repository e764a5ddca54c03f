//! Where mimalloc's structures have their fields, by release: bytes from the start of each, on 64-bit processors, without `MI_SECURE` and
//! `MI_DEBUG`. From `include/mimalloc/types.h`. In: nothing. Out: a row for each layout.

/// Releases that have the same structures.
#[derive(Debug, PartialEq, Eq)]
pub struct Release {
    /// Their name in reports.
    pub name: &'static str,
    /// Of a page.
    pub page: PageFields,
    /// Of an arena.
    pub arena: ArenaFields,
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
    /// `page_start`.
    pub page_start: usize,
    /// `theap`, or `heap` before 3.3: the owner's heap.
    pub owner: usize,
    /// `memid`: an arena with slice and count, or base and size.
    pub memid: usize,
    /// The kind in `memid`.
    pub memid_kind: usize,
}

/// The fields of `mi_arena_t`.
#[derive(Debug, PartialEq, Eq)]
pub struct ArenaFields {
    /// `subproc`: the process's list.
    pub subproc: u64,
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
    /// `subproc` of `mi_tld_t`, to which the heap of a thread points first.
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
pub const KNOWN: &str = "3.1 and 3.3";

/// Every layout, the newest first. A map is read by the first one by which it and its arenas prove themselves.
pub const ALL: &[Release] = &[V3_3, V3_1];

const V3_3: Release = Release {
    name: "3.3",
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
        page_start: 48,
        owner: 56,
        memid: 96,
        memid_kind: 112,
    },
    arena: ArenaFields {
        subproc: 24,
        slice_count: 40,
        info_slices: 48,
        slices_free: 104,
        slices_committed: 112,
        pages: 144,
        pages_chunks: 128,
    },
    process: ProcessFields { of_thread: 24, arena_count: 24, arenas: 32, most: 160 },
    owner: OwnerFields {
        page_count: 176,
        lists: Some(OwnerLists { heaps: 1368, next: 16, theaps: 56, theaps_next: 240 }),
    },
};

const V3_1: Release = Release {
    name: "3.1",
    page: PageFields { owner: 64, ..V3_3.page },
    arena: ArenaFields {
        slice_count: 32,
        info_slices: 40,
        slices_free: 80,
        slices_committed: 88,
        pages: 112,
        ..V3_3.arena
    },
    process: ProcessFields { arena_count: 0, arenas: 8, ..V3_3.process },
    owner: OwnerFields { page_count: 168, lists: None },
};
