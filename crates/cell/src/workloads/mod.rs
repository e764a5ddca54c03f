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

use crate::workload::Workload;
use allocanary_rows::description::WorkloadDescription;

/// Every workload. The first one is the default.
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

/// The description of each workload for the command.
pub fn described() -> Vec<WorkloadDescription> {
    ALL.iter().map(|workload| workload.description()).collect()
}

/// The names of all workloads.
pub fn names() -> Vec<&'static str> {
    ALL.iter().map(|workload| workload.name).collect()
}
