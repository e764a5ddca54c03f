//! Page faults so far, from getrusage.

use crate::meter::{Column, Meter, column};
use allocanary_sys::sys::usage;
use allocanary_text::units::Unit;

pub const METER: Meter = Meter {
    name: "faults",
    about: "getrusage: page faults since exec",
    columns: COLUMNS,
    at: None,
    read: |_, slots| {
        let usage = usage();
        slots.copy_from_slice(&[Some(usage.minor_faults), Some(usage.major_faults)]);
    },
};

const COLUMNS: &[Column] = &[
    column("minor_faults", Unit::Count, "page faults served from memory"),
    column("major_faults", Unit::Count, "page faults served from a disk"),
];
