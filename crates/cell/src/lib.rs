//! Internal to [allocanary](https://docs.rs/allocanary): this crate has no stable API, and any release may change it.
//!
//! The child's side of a study. The messages between child and parent are in `allocanary-rows`.
//!
//! A cell is a fresh process with one allocator linked: a [`worker`] that runs a [`workload`] and reads [`meters`] at
//! its moments. It receives a [`Cell`](allocanary_rows::Cell), answers with a [`sample`](allocanary_rows::sample), and identifies itself
//! with a [`description`](allocanary_rows::description).
//!
//! Modules with singular names are contracts. Modules with plural names contain the entries and the list of them: one
//! file and one line add a workload or a meter.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod meter;
pub mod meters;
mod room;
pub mod worker;
pub mod workload;
pub mod workloads;
