//! A study as it is measured: what is kept next to its rows, and what an interrupted one has measured already. In: a
//! study, a target. Out: cells that are left to run, and errors where rows must not be combined.

mod earlier;
pub mod kept;

pub use earlier::{Earlier, other_file};
