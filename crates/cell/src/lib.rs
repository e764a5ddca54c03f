//! Internal to [allocanary](https://docs.rs/allocanary): this crate has no stable API, and any release may change it.
//!
//! The child's side of a study, and the messages between child and parent.
//!
//! A cell is a fresh process with one allocator linked: a [`worker`] that runs a [`workload`] and reads [`meters`] at
//! its phases. It receives a [`Cell`], answers with a [`sample`], and identifies itself with a [`description`].
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
