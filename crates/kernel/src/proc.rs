//! The files of `/proc` about a process: each is parsed in one place. In: a text of the kernel. Out: what it tells, in bytes.

pub mod kinds;
mod mapping;
pub mod maps;

pub use mapping::{Mapping, parse_maps};
