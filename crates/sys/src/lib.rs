//! Internal to [allocanary](https://docs.rs/allocanary): any release may change this crate.
//!
//! The Linux kernel's interface for the other crates: system calls, /proc, control groups, clocks, and files of the user. Also code that
//! needs neither an allocator nor a thread: locks that survive a fork, free lists, random numbers.

// This crate returns numbers and texts. Only the command writes to a terminal.
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::dbg_macro)]
#![cfg_attr(test, allow(clippy::disallowed_methods))]

#[cfg(not(target_os = "linux"))]
compile_error!("allocanary reads /proc: it runs on Linux");

pub mod address_space;
pub mod available;
pub mod cgroups;
pub mod clocks;
pub mod container;
pub mod elf;
pub mod fnv;
pub mod fork_lock;
pub mod free_list;
pub mod host;
pub mod input;
pub mod nearest;
pub mod private;
pub mod proc;
pub mod rng;
pub mod sys;
mod thread_word;
