//! Candidates and workloads as users write them and as rows have them: texts, which no allocator and no process is needed
//! to read.

mod candidate;
mod nearest;
mod spec;

pub use candidate::Candidate;
pub use nearest::{nearest, perhaps};
pub use spec::{PRELOAD, PROCESS_THP, Spec};
