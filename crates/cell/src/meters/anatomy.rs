//! Where the memory of an idle process is: `/proc/self/smaps` by the kind of mapping, and the allocator's own count. The heap is one part,
//! `unknown`. The crate `measure` divides it by the allocator's count.
//!
//! It is read only in the moment `idle`, once in a run, because the kernel writes half a page of text for each mapping. In this moment all
//! threads are paused, which mimalloc's walk needs. The text is read in pieces, so that it needs no memory.

use crate::meter::{Column, Meter, column};
use allocanary::Allocator;
use allocanary_rows::Moment;
use allocanary_sys::proc::kinds::Mappings;
use allocanary_text::units::Unit;

pub const METER: Meter = Meter {
    name: "anatomy",
    about: "/proc/self/smaps by kind of mapping, and the allocator's memory by use; only when idle",
    columns: COLUMNS,
    at: Some(Moment::Idle),
    read,
};

const COLUMNS: &[Column] = &[
    column("part_files_bytes", Unit::Bytes, "resident in the program's and its libraries' files, and in their data"),
    column("part_stacks_bytes", Unit::Bytes, "resident in the stacks of all threads"),
    column("part_unknown_bytes", Unit::Bytes, "resident in all other anonymous mappings: what the allocator has"),
    column("part_shared_bytes", Unit::Bytes, "resident in shared mappings"),
    column("part_unknown_huge_bytes", Unit::Bytes, "of part_unknown_bytes, in transparent huge pages"),
    column(
        "allocator_live_bytes",
        Unit::Bytes,
        "allocator: in blocks that the program holds (glibc: and in thread caches)",
    ),
    column("allocator_cached_bytes", Unit::Bytes, "allocator: in free blocks that a thread's cache keeps"),
    column(
        "allocator_free_bytes",
        Unit::Bytes,
        "allocator: free, in the same pages as blocks (glibc: all that is free)",
    ),
    column("allocator_dirty_bytes", Unit::Bytes, "allocator: in freed pages, not yet returned"),
    column("allocator_muzzy_bytes", Unit::Bytes, "allocator: in freed pages that the kernel may take"),
];

fn read(allocator: &dyn Allocator, slots: &mut [Option<u64>]) {
    let uses = allocator.uses();
    slots[5..].copy_from_slice(&[uses.live, uses.cached, uses.free, uses.dirty, uses.muzzy]);
    let Ok(found) = Mappings::own() else { return };
    let found = [found.program, found.stacks, found.heap, found.other, found.huge];
    slots[..5].copy_from_slice(&found.map(Some));
}
