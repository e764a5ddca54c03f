//! Internal to [allocanary](https://docs.rs/allocanary): this crate has no stable API, and any release may change it.
//!
//! Names the code and the variables of another program. From addresses and the files that the program has mapped, it finds functions with
//! file, line, module and inlined frames.
//!
//! - [`stacks`] names the frames of stacks, by the [`sources`] of a trace or of a process. [`perf_map`] names code that is in no file.
//! - [`variables`] has the variables of a file.
//! - [`frame`] has the parts of a name. [`mangled`] converts the names that a compiler has changed.
//!
//! Only this crate demangles.

// This crate returns numbers and texts. Only the command writes to a terminal.
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::dbg_macro)]
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod debug;
mod file;
pub mod frame;
pub mod mangled;
mod packed;
pub mod perf_map;
mod scopes;
pub mod sources;
pub mod stacks;
mod unwinding;
pub mod variables;

pub use frame::{FunctionId, NameSource, NamedFrame};
pub use stacks::FrameNames;
