//! CPU time so far, from getrusage.

use crate::meter::{Meter, Reading, reading};
use allocanary_kernel::sys::usage;
use allocanary_kernel::units::Unit;

/// The meter.
pub const METER: Meter = Meter {
    name: "cpu",
    about: "getrusage: processor time of all threads since exec",
    readings: READINGS,
    at: None,
    read: |_, slots| {
        let usage = usage();
        slots.copy_from_slice(&[Some(usage.user_us), Some(usage.system_us)]);
    },
};

const READINGS: &[Reading] = &[
    reading("user_us", Unit::Microseconds, "processor time in the program"),
    reading("system_us", Unit::Microseconds, "processor time in the kernel"),
];
