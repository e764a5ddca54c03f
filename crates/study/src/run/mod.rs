//! Measuring: finds cells, starts one child process for each, and writes rows. In: a plan. Out: `samples.jsonl`.

mod builder;
mod cause;
mod child;
mod ours;
pub mod program;
mod roster;
mod runner;
mod store;

pub use builder::Builder;
pub use child::{Child, Ended, run_child};
pub use ours::holds_rows;
pub use roster::{Roster, check_folder, describe};
pub use runner::{Ending, Runner};
pub use store::{Left, Store, Target};
