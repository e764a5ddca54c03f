//! The workloads, one file each, and the list of them.

mod bleed;
mod blob;
mod block;
mod crew;
mod handoff;
mod laps;
mod list;
mod server;
mod small;
mod sort;

use crate::workload::Workload;

/// Every workload; the first is the default.
pub const ALL: &[&Workload] = &[
    &server::WORKLOAD,
    &handoff::WORKLOAD,
    &bleed::WORKLOAD,
    &small::WORKLOAD,
    &list::WORKLOAD,
    &sort::WORKLOAD,
    &blob::WORKLOAD,
];
