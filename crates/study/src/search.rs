//! Finds the settings that cost a workload the least, and proves them. Data flow in one direction:
//!
//! 1. The [`space`] gives a list of candidates, from the tables of the available cells.
//! 2. A [`race`] drops the candidates that others dominate, by a few rows of each. The rows come from a [`Measure`],
//!    which is [`cells`] of a workload, of a program or of a trace.
//! 3. The finalists and what the user has now are measured again. The [`proof`] compares only these fresh rows.
//!
//! The command puts the result into words.

// This crate returns numbers and texts. Only the command writes to a terminal.

pub mod cells;
pub mod goal;
pub mod proof;
pub mod race;
#[cfg(test)]
mod simulation;
pub mod space;
pub mod whole;

pub use goal::{Goal, GoalSource};
pub use whole::{Measure, Plan, Searched, search};
