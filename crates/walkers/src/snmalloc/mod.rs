//! snmalloc: its heap is not divided.

use crate::known::Known;
use allocanary_facts::snmalloc::DESCRIPTOR;

/// By what it is known.
pub(super) const KNOWN: Known = Known {
    name: DESCRIPTOR.heap,
    libraries: &["libsnmalloc"],
    // Its constants have no text.
    text: None,
    is_below_others: false,
};
