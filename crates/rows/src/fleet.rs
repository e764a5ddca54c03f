//! Internal to [allocanary](https://docs.rs/allocanary): this crate has no stable API, and any release may change it.
//!
//! What agents report about nodes, as values. An agent makes a [`Report`] of its node: a [`Row`] for each container, whose [`Parts`]
//! add up to the resident bytes. [`Fleet`] adds up the reports of many nodes by workload. Nothing here reads a process or a network.

#![deny(clippy::print_stdout, clippy::print_stderr, clippy::dbg_macro)]
#![forbid(unsafe_code)]

mod parts;
mod report;
mod workloads;

pub use allocanary_text::parts::{PARTS, Part, Parts};
pub use parts::now;
pub use report::{Bound, Follows, Host, Own, Report, Row, SCHEMA, Sent};
pub use workloads::{Fleet, Workload, of_replica};
