//! How a host, a container and an environment affect an allocator, and what to change. In: facts from /proc, control
//! groups, the environment and ELF files. Out: values, and a text for the user.
//!
//! Facts are gathered first ([`host`], [`process`]). The judgements ([`defaults`], [`environment`], [`identity`],
//! [`advice`]) are pure functions of these facts.

// This crate returns numbers and texts. Only the command writes to a terminal.
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::dbg_macro)]
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod advice;
mod allocators;
mod contract;
pub mod defaults;
pub mod diagnosis;
pub mod elf;
pub mod environment;
pub mod error;
mod flavour;
pub mod host;
pub mod identify;
pub mod installed;
pub mod judgement;
pub mod look;
pub mod notice;
pub mod page;
pub mod program;
pub mod remedies;
pub mod remedy;
mod runtimes;
pub mod seen;
mod subject;
pub mod variables;

pub use allocators::jemalloc::builds::own_variable;
pub use allocators::jemalloc::links::links;
pub use flavour::Flavour;
pub use identify as identity;
pub use look as process;
pub use variables::{Effect, Variables};
