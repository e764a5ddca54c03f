//! The allocator's own statistics.

use crate::meter::{Column, Meter, column};
use allocanary_text::units::Unit;

pub const METER: Meter = Meter {
    name: "heap",
    about: "the allocator's own counters (mallctl, mallinfo2 and malloc_info, mi_stats)",
    columns: COLUMNS,
    at: None,
    read: |allocator, slots| {
        let counters = allocator.counters();
        slots.copy_from_slice(&[
            counters.allocated,
            counters.active,
            counters.resident,
            counters.mapped,
            counters.metadata,
            counters.retained,
            counters.arenas,
        ]);
    },
};

const COLUMNS: &[Column] = &[
    column("allocator_allocated_bytes", Unit::Bytes, "in blocks that the program holds"),
    column("allocator_active_bytes", Unit::Bytes, "in pages with at least one such block"),
    column("allocator_resident_bytes", Unit::Bytes, "in pages not yet given back"),
    column("allocator_mapped_bytes", Unit::Bytes, "in mappings, touched or not: all that it has from the system"),
    column("allocator_metadata_bytes", Unit::Bytes, "in the allocator's own structures"),
    column("allocator_retained_bytes", Unit::Bytes, "of addresses kept without memory"),
    column("allocator_arenas", Unit::Count, "arenas in use"),
];
