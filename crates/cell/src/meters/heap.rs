//! The allocator's own statistics.

use crate::meter::{Meter, Reading, reading};
use allocanary_kernel::units::Unit;

/// The meter.
pub const METER: Meter = Meter {
    name: "heap",
    about: "the allocator's own counters (mallctl, mallinfo2 and malloc_info, mi_stats)",
    readings: READINGS,
    at: None,
    read: |allocator, slots| {
        let counters = allocator.counters();
        slots.copy_from_slice(&[
            counters.allocated,
            counters.active,
            counters.resident,
            counters.metadata,
            counters.retained,
            counters.arenas,
        ]);
    },
};

const READINGS: &[Reading] = &[
    reading("heap_allocated_bytes", Unit::Bytes, "in blocks that the program holds"),
    reading("heap_active_bytes", Unit::Bytes, "in pages with at least one such block"),
    reading("heap_resident_bytes", Unit::Bytes, "in pages not yet given back"),
    reading("heap_metadata_bytes", Unit::Bytes, "in the allocator's own structures"),
    reading("heap_retained_bytes", Unit::Bytes, "of addresses kept without memory"),
    reading("heap_arenas", Unit::Count, "arenas in use"),
];
