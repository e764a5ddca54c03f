//! tcmalloc: its heap is not divided.

use super::Known;
use allocanary_allocators::allocators::tcmalloc::DESCRIPTOR;

/// By what it is known.
pub(super) const KNOWN: Known =
    Known { name: DESCRIPTOR.heap, libraries: &["libtcmalloc"], text: Some(b" :collamct"), is_below_others: false };
