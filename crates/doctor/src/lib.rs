//! Finds how a host, a container and an environment affect an allocator, and what to change. It reads /proc, control groups, the
//! environment and ELF files, and returns values and texts for the user.
//!
//! Facts are gathered first ([`host`], [`process`], [`elf`]). The judgements ([`identify`], [`defaults`], [`arenas`], [`environment`],
//! [`advice`], [`remedies`]) are pure functions of these facts: they loop over the folders in `allocators`. Imports go one way: from the
//! judgements to the folders, from these to `contract`, and from there to the types of facts.

// This crate returns numbers and texts. Only the command writes to a terminal.
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::dbg_macro)]
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod advice;
mod allocators;
pub mod arenas;
mod call_check;
mod contract;
pub mod defaults;
pub mod diagnosis;
pub mod elf;
pub mod environment;
pub mod error;
mod flavour;
pub mod host;
pub mod identify;
pub mod identity;
pub mod installed;
pub mod judgement;
mod look;
pub mod notice;
pub mod page;
pub mod process;
pub mod program;
pub mod remedies;
pub mod remedy;
mod runtimes;
pub mod seen;
pub mod signs;
mod subject;
pub mod variables;

pub use allocators::jemalloc::builds::own_variable;
pub use allocators::jemalloc::links::links;
pub use flavour::Flavour;
pub use variables::{VariableEffect, Variables};
