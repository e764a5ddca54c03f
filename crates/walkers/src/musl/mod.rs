//! musl's malloc: its heap is not divided.

use super::Known;
use allocanary_allocators::allocators::musl::DESCRIPTOR;

/// By what it is known.
pub(super) const KNOWN: Known = Known {
    name: DESCRIPTOR.heap,
    libraries: &["ld-musl"],
    // Of its table of errors: its malloc has no text.
    text: Some(b"noitamrofni rorre oN"),
    is_below_others: false,
};
