//! Internal to [allocanary](https://docs.rs/allocanary): this crate promises nothing, and any release may change it.
//!
//! The child's side of a study, and the messages between child and parent.
//!
//! A cell is a fresh process with one allocator linked: a [`worker`] that runs a [`workload`] and reads [`meters`] at its
//! phases. It is told what to do by a [`Cell`], answers with a [`sample`], and says who it is by a [`description`].
//!
//! Singular modules are contracts, plural ones hold the entries and the list of them, so that a workload or a meter is added
//! with one file and one line.

mod cell;
pub mod description;
pub mod load;
pub mod meter;
pub mod meters;
pub mod provenance;
pub mod sample;
pub mod spec;
pub mod worker;
pub mod workload;
pub mod workloads;

pub use cell::Cell;
