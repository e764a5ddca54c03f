//! snmalloc: its heap is not analysed.

use crate::known::AllocatorMark;

/// Its name in reports.
const NAME: &str = "snmalloc";

/// How it is recognised.
pub(super) const KNOWN: AllocatorMark = AllocatorMark {
    name: NAME,
    libraries: &["libsnmalloc"],
    // Its constants have no text.
    text: None,
    is_below_others: false,
};
