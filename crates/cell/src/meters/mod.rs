//! The meters, one file each, and the list of them.

mod anatomy;
mod cgroup;
mod cpu;
mod faults;
mod heap;
mod latency;
mod smaps;
pub mod status;

pub use latency::{COLUMNS as LATENCY_COLUMNS, LatencyMeter};

use crate::meter::{Column, Meter};
use allocanary_rows::description::ReadingDescription;

/// Every meter. `status` must be the first. The walks over all mappings come last, because they are the slowest.
pub const ALL: &[&Meter] =
    &[&status::METER, &faults::METER, &cpu::METER, &heap::METER, &cgroup::METER, &smaps::METER, &anatomy::METER];

/// The description of each reading for the command, including the latencies.
pub fn described() -> Vec<ReadingDescription> {
    let latency = latency::COLUMNS.iter().map(|column| ("latency", column));
    let all = ALL.iter().flat_map(|meter| meter.columns.iter().map(|column| (meter.name, column))).chain(latency);
    all.map(|(meter, Column { name, about, .. })| ReadingDescription { meter, name, about }).collect()
}

/// Number of readings of all meters.
pub const COLUMNS: usize = {
    let mut count = 0;
    let mut meter = 0;
    while meter < ALL.len() {
        count += ALL[meter].columns.len();
        meter += 1;
    }
    count
};
