//! The workloads, one file each, and the list of them.

mod bleed;
mod blob;
mod block;
mod churn;
mod crew;
mod handoff;
mod laps;
mod list;
mod replay;
mod reserve;
mod server;
mod sizes;
mod small;
mod sort;
mod storm;
mod wakes;

pub use replay::{HEAP_PEAK, MOST_ANON};

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
    &churn::WORKLOAD,
    &storm::WORKLOAD,
    &reserve::WORKLOAD,
    &wakes::WORKLOAD,
    &replay::WORKLOAD,
];
