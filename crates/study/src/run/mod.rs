//! Measuring: finds cells, starts one child process for each, and writes rows. In: a plan. Out: `samples.jsonl`.

mod builder;
mod child;
mod roster;
mod runner;
mod store;

pub use builder::Builder;
pub use child::{Child, Ended, run_child};
pub use roster::{Roster, describe};
pub use runner::{Progress, Runner};
pub use store::{Store, Target};
