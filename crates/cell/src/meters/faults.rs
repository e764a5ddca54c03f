//! Page faults so far, from getrusage.

use crate::meter::{Meter, Reading, reading};
use allocanary_kernel::sys::usage;
use allocanary_kernel::units::Unit;

/// The meter.
pub const METER: Meter = Meter {
    name: "faults",
    about: "getrusage: page faults since exec",
    readings: READINGS,
    at: None,
    read: |_, slots| {
        let usage = usage();
        slots.copy_from_slice(&[Some(usage.minor_faults), Some(usage.major_faults)]);
    },
};

const READINGS: &[Reading] = &[
    reading("minor_faults", Unit::Count, "page faults served from memory"),
    reading("major_faults", Unit::Count, "page faults served from a disk"),
];
