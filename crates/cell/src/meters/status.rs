//! `/proc/self/status`: the sizes that the kernel counts for every process.

use crate::meter::{Column, Meter, column};
use allocanary::Allocator;
use allocanary_sys::proc::ProcStatus;
use allocanary_text::units::Unit;

/// The meter.
pub const METER: Meter = Meter {
    name: "status",
    about: "/proc/self/status: cheap; resident sizes may lag by some pages per processor",
    columns: COLUMNS,
    at: None,
    read,
};

fn read(_: &dyn Allocator, slots: &mut [Option<u64>]) {
    if let Ok(status) = ProcStatus::own() {
        fill(&status, slots);
    }
}

/// The readings in a text of `/proc/self/status`, which may have been read earlier.
pub fn parse(text: &[u8], slots: &mut [Option<u64>]) {
    fill(&ProcStatus::parse(text), slots);
}

fn fill(status: &ProcStatus, slots: &mut [Option<u64>]) {
    let ProcStatus { resident, most_resident, anonymous, addresses, threads, .. } = *status;
    let values = [resident, most_resident, anonymous, addresses, threads];
    slots.iter_mut().zip(values).for_each(|(slot, value)| *slot = value);
}

const COLUMNS: &[Column] = &[
    column("resident_bytes", Unit::Bytes, "resident memory (VmRSS)"),
    column("peak_resident_bytes", Unit::Bytes, "most resident memory since exec (VmHWM)"),
    column("anonymous_bytes", Unit::Bytes, "resident memory that no file backs (RssAnon)"),
    column("vsz_bytes", Unit::Bytes, "address space (VmSize)"),
    column("threads", Unit::Count, "threads of the process"),
];
