//! Internal to [allocanary](https://docs.rs/allocanary): any release may change this crate.
//!
//! Reads the return addresses of the calling thread, inside `malloc` of another program. It does not allocate, take a lock or start a
//! thread.
//!
//! - [`frames`] reads the rules that a compiler writes for exceptions (`.eh_frame`): pure code on bytes.
//! - [`rule`] is one such rule as a number: it says where the caller's frame is.
//! - [`rules`] caches the rules that were found, for all threads.
//! - [`object`] finds the file of an address and its tables, by glibc's `_dl_find_object`.
//! - [`epilogue`] reads the rule from the code itself. This is for code that a runtime has made and that has no tables.
//! - `stack` reads the stack, but only memory that is mapped.
//! - [`walk`] uses all of these, and continues from the thread's last stack.
//! - [`outside`] walks the stack of a thread of another process, by the same rules. Only this module allocates.
//!
//! It works on x86-64 and on aarch64, with glibc 2.35 or later. On aarch64 every function that calls another one keeps a frame: the caller's
//! frame pointer and the return address. So one rule, [`rule::Rule::of_frame`], is that of all code of files. On other systems [`walk::look_up`] returns false, and no stack is
//! walked.

// This crate returns numbers. Only the command writes to a terminal.
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
