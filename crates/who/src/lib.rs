//! Internal to [allocanary](https://docs.rs/allocanary): this crate has no stable API, and any release may change it.
//!
//! Finds the call sites of a recorded program that hold memory, and the sites whose few blocks keep pages that are
//! otherwise free.
//!
//! - [`moment`] is the time at which the live blocks are examined. [`tally`] counts the events until then, and keeps
//!   the live blocks.
//! - [`course`] has live bytes over time, and [`slope`] says how fast they grow.
//! - [`timeline`] has the live bytes of sites over the whole trace.
//! - [`pages`] divides the bytes of the resident pages: live, pinned by a site, or empty. [`ever`] knows where blocks have been.
//! - [`fold`] picks the function that is the site, and [`groups`] puts the stacks of one site together.
//! - [`sites`] combines these. [`answer`] writes the result as one sentence.
//! - [`callers`] is the tree of a site's callers.
//! - [`against`] compares the sites of two traces, and [`same`] finds which of these are the same.
//! - [`under`] puts the same blocks at their addresses in a replay under another allocator.
//! - [`what_if`] moves the blocks of a site to a pool.
//! - [`sampled`] has the sites of a running process, by the samples in its memory.
//! - [`profile`] and [`collapsed`] write the results for other tools.

// This crate returns numbers and texts. Only the command writes to a terminal.
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::dbg_macro)]
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod against;
pub mod answer;
pub mod callers;
pub mod collapsed;
pub mod course;
pub mod ever;
pub mod fold;
pub mod groups;
#[cfg(test)]
mod invented;
mod labels;
pub mod moment;
mod named;
pub mod order;
pub mod pages;
pub mod profile;
pub mod same;
pub mod sampled;
pub mod sites;
pub mod slope;
pub mod tally;
pub mod timeline;
pub mod under;
mod watch;
pub mod what_if;

pub use fold::{By, Folding};
pub use groups::StackGroups;
pub use moment::{MomentChoice, TracePoint};
pub use order::SiteOrder;
pub use sites::{AllocationSite, SiteReport};
pub use tally::{BlockTally, EventTally, LiveBlock};
pub use under::Under;
pub use what_if::WhatIf;
