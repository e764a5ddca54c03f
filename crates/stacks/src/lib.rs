//! Internal to [allocanary](https://docs.rs/allocanary): any release may change this crate.
//!
//! The return addresses of the calling thread, inside `malloc` of another program. Nothing of that allocates, takes a lock or starts a
//! thread.
//!
//! - [`frames`] reads the rules that a compiler writes for exceptions (`.eh_frame`): pure code on bytes.
//! - [`rule`] is one of them as a number: where the caller's frame is.
//! - [`rules`] keeps each rule that was found, for all threads.
//! - [`object`] finds the tables of the file that an address lies in, by glibc's `_dl_find_object`.
//! - [`epilogue`] reads the rule from the code itself, where a runtime has made it and there are no tables.
//! - `stack` reads the stack, and only what is mapped.
//! - [`walk`] puts these together, and goes on from the thread's last stack.
//! - [`outside`] walks the stack of a thread of another process, by the same rules. It alone allocates.
//!
//! On x86-64 with glibc 2.35 or later. Elsewhere [`walk::look_up`] says no, and nothing is walked.

// Numbers are returned; only the command writes to a terminal.
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::dbg_macro)]

mod bytes;
mod copy;
pub mod epilogue;
pub mod frames;
mod made;
pub mod mappings;
pub mod object;
pub mod outside;
pub mod rule;
pub mod rules;
mod stack;
pub mod walk;
