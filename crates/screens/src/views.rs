//! What people see of a process, its contents, a trace with its call sites, and a fleet. In: readings. Out: texts and pages. The module
//! `report` has the reports of studies. Neither uses the other.

// This crate returns texts. Only the command writes to a terminal.

pub mod contents;
pub mod door;
pub mod fleet;
pub mod heap;
pub mod remedies;
pub mod trace;
pub mod trial;
pub mod who;
