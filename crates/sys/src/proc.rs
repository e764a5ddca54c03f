//! Parses the files of `/proc` about a process, each in one place. All sizes are in bytes.
//!
//! A parser takes a text. The functions that read a file open it with the rights of this process. The child without rights may not open
//! files, and gets the text from `allocanary_process`.

pub mod files;
pub mod handed_back;
pub mod hidden;
pub mod kinds;
mod lines;
mod mapping;
pub mod maps;
pub mod pids;
pub mod smaps;
pub mod stat;
mod status;

pub use mapping::{Mapping, parse_maps};
pub use stat::Stat;
pub use status::ProcStatus;
