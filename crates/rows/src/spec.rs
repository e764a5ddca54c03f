//! Internal to [allocanary](https://docs.rs/allocanary): this crate has no stable API, and any release may change it.
//!
//! Candidates and workloads as users write them and as rows have them: texts, which no allocator and no process is needed
//! to read.

#![forbid(unsafe_code)]

mod candidate;
mod nearest;
mod spec;

pub use candidate::Candidate;
pub use nearest::{nearest, perhaps};
pub use spec::{PRELOAD, PROCESS_THP, Spec};
