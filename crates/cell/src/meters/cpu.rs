//! CPU time so far, from getrusage.

use crate::meter::{Column, Meter, column};
use allocanary_sys::sys::usage;
use allocanary_text::units::Unit;

pub const METER: Meter = Meter {
    name: "cpu",
    about: "getrusage: processor time of all threads since exec",
    columns: COLUMNS,
    at: None,
    read: |_, slots| {
        let usage = usage();
        slots.copy_from_slice(&[Some(usage.user_us), Some(usage.system_us)]);
    },
};

const COLUMNS: &[Column] = &[
    column("user_us", Unit::Microseconds, "processor time in the program"),
    column("system_us", Unit::Microseconds, "processor time in the kernel"),
];
