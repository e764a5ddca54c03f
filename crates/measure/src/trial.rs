//! A trial: one replica of a workload gets other settings, and is compared with the others.
//!
//! 1. [`steps`] makes the patch for one replica, as commands that a person runs.
//! 2. [`replicas`] finds the replicas in the reports of agents, and what each had before and after the change.
//! 3. [`estimate`] is only statistics: from numbers it makes an interval and a word.
//! 4. [`verdict`] puts the last two together, and adds the doubts about the verdict.
//!
//! Nothing here reads a network or changes a cluster.

pub mod estimate;
pub mod replicas;
#[cfg(test)]
mod simulation_tests;
pub mod steps;
mod target;
pub mod verdict;

pub use target::{TrialTarget, TrialVariable};
