//! Internal to [allocanary](https://docs.rs/allocanary): this crate has no stable API, and any release may change it.
//!
//! What one process writes and another reads: the request to a [`Cell`] and its answer ([`sample`]), a row and its origin ([`provenance`]),
//! candidates and workloads as users write them ([`Spec`]), an agent's report ([`fleet`]), and errors about these. Only data: nothing here
//! measures, and no allocator is needed to read it.

#![deny(clippy::print_stdout, clippy::print_stderr, clippy::dbg_macro)]
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod candidate;
mod cell;
pub mod description;
pub mod error;
pub mod fleet;
pub mod job;
pub mod load;
mod moment;
mod nearest;
pub mod program;
pub mod provenance;
pub mod sample;
mod spec;
pub mod version;

pub use candidate::Candidate;
pub use cell::Cell;
pub use moment::Moment;
pub use nearest::{mistyped, nearest, perhaps};
pub use spec::{PRELOAD, PROCESS_THP, Spec};
