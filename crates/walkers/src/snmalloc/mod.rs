//! snmalloc: its heap is not divided.

use crate::known::AllocatorMark;

/// Its name in readings of a heap.
const NAME: &str = "snmalloc";

/// By what it is known.
pub(super) const KNOWN: AllocatorMark = AllocatorMark {
    name: NAME,
    libraries: &["libsnmalloc"],
    // Its constants have no text.
    text: None,
    is_below_others: false,
};
