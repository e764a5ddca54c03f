//! What measuring needs of the machine: finds cells, starts child processes and the user's program, and writes rows. In: a
//! plan. Out: `samples.jsonl`.

mod builder;
mod child;
pub(crate) mod roster;
mod store;

pub use builder::Builder;
pub use child::{Child, Ended, run_child};
pub use roster::{Refusal, Roster, check_folder, describe};
pub use store::{Left, Store, Target};
