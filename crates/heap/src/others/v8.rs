//! Recognises V8's heap. It has pieces at multiples of 256 KiB. A piece begins with its length. Later in its header are the begin and the
//! end of its objects.

use super::{RuntimeHeap, Sight};
use crate::Mapping;

/// V8's heap.
pub const HEAP: RuntimeHeap = RuntimeHeap {
    name: "V8's heap",
    how: "pieces at multiples of 256 KiB, each with its length and bounds",
    tool: "node --inspect and a heap snapshot; process.memoryUsage(), v8.getHeapSpaceStatistics()",
    is_here: |sight| {
        sight.has_file("libnode")
            || ["node", "deno", "chrom", "electron", "bun"].iter().any(|name| sight.executable.starts_with(name))
    },
    owns,
};

/// Pieces begin at multiples of this.
const STEP: u64 = 256 << 10;

fn owns(sight: &Sight, mapping: &Mapping) -> bool {
    let at = mapping.from;
    // Adjacent pieces are one mapping. The first piece is checked.
    let word = |at| sight.memory.word(at).unwrap_or_default();
    let (length, begin, end) = (word(at), word(at + 24), word(at + 32));
    let fits = |piece_end: u64| piece_end <= mapping.to.next_multiple_of(STEP) && end <= piece_end;
    at.is_multiple_of(STEP)
        && length > 0
        && length.is_multiple_of(crate::PAGE)
        && at < begin
        && begin < end
        && at.checked_add(length).is_some_and(fits)
}
