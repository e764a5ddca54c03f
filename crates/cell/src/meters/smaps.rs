//! `/proc/self/smaps_rollup`: exact sizes. The kernel walks every page table of the process for them.

use crate::meter::{Column, Meter, column};
use allocanary_sys::proc::smaps::MappingBytes;
use allocanary_text::units::Unit;

pub const METER: Meter = Meter {
    name: "smaps",
    about: "/proc/self/smaps_rollup: exact, and slower; tells lazily freed and huge pages apart",
    columns: COLUMNS,
    at: None,
    read: |_, slots| {
        let Ok(counts) = MappingBytes::own() else { return };
        slots.copy_from_slice(&[counts.resident, counts.share, counts.private(), counts.lazy, counts.huge]);
    },
};

const COLUMNS: &[Column] = &[
    column("smaps_resident_bytes", Unit::Bytes, "resident memory, exactly"),
    column("pss_bytes", Unit::Bytes, "resident memory, shared pages divided among their users"),
    column("private_bytes", Unit::Bytes, "resident memory that only this process has"),
    column("lazy_free_bytes", Unit::Bytes, "given back with MADV_FREE but still counted as resident"),
    column("anonymous_huge_bytes", Unit::Bytes, "in transparent huge pages"),
];
