//! Internal to [allocanary](https://docs.rs/allocanary): any release may change this crate.
//!
//! Records the program in which it runs. In: calls of the malloc family, on any thread, in signal handlers, before `main`, after a fork.
//! Out: a file of chunks, see [`format`](mod@allocanary_trace::format). The crate `trace` reads it.
//!
//! It allocates nothing, takes no lock, starts no thread and keeps no descriptor. The hot path is one store of two to seven bytes to the
//! thread's own chunk. A fork wipes the pages with the state that a child must not inherit.
//!
//! The environment: `ALLOCANARY_RECORD` is the folder of the traces, an absolute path of an existing folder. Without it nothing is
//! recorded. If the folder cannot be written, nothing is recorded either, and one line on standard error says so. `ALLOCANARY_RECORD_MAX`
//! is the largest size of a trace in bytes (1 GiB), `ALLOCANARY_RECORD_SAMPLE` records one block in this many, chosen by its address.
//! `ALLOCANARY_RECORD_WINDOW` keeps the last milliseconds only. `ALLOCANARY_RECORD_STACK_SAMPLE` records the stack of one
//! allocation in this many (0, none). `ALLOCANARY_RECORD_OTHERS` is a second folder, for processes that may not write to the first one.

// On other processors this crate is empty, and nothing is recorded.
#![cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
// This crate runs inside other programs.
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::dbg_macro)]
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod attached;
mod calls;
mod clocks;
mod config;
mod confined;
mod forks;
pub mod got;
mod memory;
mod process;
pub mod real;
mod stacks;
mod thread;
mod tls;
mod undisturbed;

pub use allocanary_trace::coder::AllocFunction;
pub use calls::{allocated, allocated_by, exiting, freed, resized, resizing};
pub use confined::confined;
pub use forks::watch_forks;
pub use stacks::{library_closed, look_up_in_program};

/// Looks up the allocator's functions, and those that stacks need, at the start of a recorded program. Otherwise a program that only frees
/// would have a trace that says that stacks are not possible.
pub fn look_up() {
    if config::is_asked() {
        real::look_up();
    }
}

#[cfg(test)]
mod tests;
