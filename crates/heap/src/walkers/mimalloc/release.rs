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
}

/// The fields of `mi_page_t`.
#[derive(Debug, PartialEq, Eq)]
pub struct PageFields {
    /// Its bytes.
    pub bytes: usize,
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
    /// `theap`: the owner's heap.
    pub theap: usize,
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
    /// `subproc` of `mi_tld_t`, to which `mi_theap_t` points first.
    pub of_thread: u64,
    /// `arena_count`.
    pub arena_count: u64,
    /// `arenas`: their addresses.
    pub arenas: u64,
    /// `MI_MAX_ARENAS`.
    pub most: u64,
}

/// The releases that can be read, for sentences.
pub const KNOWN: &str = "3.3";

/// Every layout, the newest first. A map is read by the first one by which it proves itself.
pub const ALL: &[Release] = &[V3_3];

const V3_3: Release = Release {
    name: "3.3",
    page: PageFields {
        bytes: 120,
        free: 8,
        used: 16,
        capacity: 18,
        reserved: 20,
        local_free: 24,
        xthread_free: 32,
        block_size: 40,
        page_start: 48,
        theap: 56,
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
};
