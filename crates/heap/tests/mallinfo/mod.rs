//! What a walk says of glibc's heap, in the words of `mallinfo2`.

use std::collections::BTreeMap;

use allocanary_walkers::system::{Free, GlibcHeap};

/// The counts as `mallinfo2` names them.
pub fn counts(heap: &GlibcHeap) -> BTreeMap<String, u64> {
    let sum = |part: fn(&Free) -> u64| heap.free.iter().map(part).sum::<u64>();
    let arena: u64 = heap.system.iter().sum();
    let free = sum(|free| free.bytes);
    [
        ("arena", arena),
        ("uordblks", arena - free),
        ("fordblks", free),
        ("fsmblks", sum(|free| free.fast_bytes)),
        ("ordblks", sum(|free| free.blocks)),
        ("smblks", sum(|free| free.fast_blocks)),
        ("hblks", heap.mmapped),
        ("hblkhd", heap.mmapped_bytes),
    ]
    .map(|(name, count)| (name.to_string(), count))
    .into()
}
