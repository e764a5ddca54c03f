//! `/proc/self/smaps_rollup`: exact sizes. The kernel walks every page table of the process for them.

use crate::meter::{Column, Meter, column};
use allocanary_kernel::sys::{line_number, read_into};
use allocanary_kernel::units::Unit;

/// The meter.
pub const METER: Meter = Meter {
    name: "smaps",
    about: "/proc/self/smaps_rollup: exact, and slower; tells lazily freed and huge pages apart",
    columns: COLUMNS,
    at: None,
    read: |_, slots| {
        let mut buffer = [0; 2048];
        let Some(text) = read_into("/proc/self/smaps_rollup", &mut buffer) else { return };
        let bytes = |key: &[u8]| line_number(text, key).map(|kib| kib * 1024);
        let private = bytes(b"Private_Clean:").zip(bytes(b"Private_Dirty:"));
        let values = [
            bytes(b"Rss:"),
            bytes(b"Pss:"),
            private.map(|(clean, dirty)| clean + dirty),
            bytes(b"LazyFree:"),
            bytes(b"AnonHugePages:"),
        ];
        slots.copy_from_slice(&values);
    },
};

const COLUMNS: &[Column] = &[
    column("smaps_rss_bytes", Unit::Bytes, "resident memory, exactly"),
    column("pss_bytes", Unit::Bytes, "resident memory, shared pages divided among their users"),
    column("private_bytes", Unit::Bytes, "resident memory that only this process has"),
    column("lazy_free_bytes", Unit::Bytes, "given back with MADV_FREE but still counted as resident"),
    column("anon_huge_bytes", Unit::Bytes, "in transparent huge pages"),
];
