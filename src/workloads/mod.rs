//! The workloads, one file each, and the list of them.

mod bleed;
mod blob;
mod block;
mod crew;
mod handoff;
mod laps;
mod server;
mod small;

use crate::workload::Workload;

/// Every workload; the first is the default.
pub const ALL: &[&Workload] =
    &[&server::WORKLOAD, &handoff::WORKLOAD, &bleed::WORKLOAD, &small::WORKLOAD, &blob::WORKLOAD];
