//! `/proc/self/status`: the sizes that the kernel counts for every process.

use crate::meter::{Column, Meter, column};
use allocanary_allocators::Allocator;
use allocanary_kernel::sys::{line_number, read_into};
use allocanary_kernel::units::Unit;

/// The meter.
pub const METER: Meter = Meter {
    name: "status",
    about: "/proc/self/status: cheap; resident sizes may lag by some pages per processor",
    columns: COLUMNS,
    at: None,
    read,
};

fn read(_: &dyn Allocator, slots: &mut [Option<u64>]) {
    let mut buffer = [0; 4096];
    if let Some(text) = read_into("/proc/self/status", &mut buffer) {
        parse(text, slots);
    }
}

/// The readings in a text of `/proc/self/status`, which may have been read earlier.
pub fn parse(text: &[u8], slots: &mut [Option<u64>]) {
    let keys: [(&[u8], u64); 5] =
        [(b"VmRSS:", 1024), (b"VmHWM:", 1024), (b"RssAnon:", 1024), (b"VmSize:", 1024), (b"Threads:", 1)];
    for (slot, (key, unit)) in slots.iter_mut().zip(keys) {
        *slot = line_number(text, key).map(|number| number * unit);
    }
}

const COLUMNS: &[Column] = &[
    column("rss_bytes", Unit::Bytes, "resident memory (VmRSS)"),
    column("peak_rss_bytes", Unit::Bytes, "most resident memory since exec (VmHWM)"),
    column("rss_anon_bytes", Unit::Bytes, "resident memory that no file backs (RssAnon)"),
    column("vsz_bytes", Unit::Bytes, "address space (VmSize)"),
    column("threads", Unit::Count, "threads of the process"),
];
