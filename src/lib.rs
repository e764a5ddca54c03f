//! allocanary tells a service owner what the memory allocator costs them, with evidence, and ships the one they pick.
//!
//! # The pipeline
//!
//! Data flow one way, and every arrow is a file or a pipe that can be looked at:
//!
//! 1. a [`study`] (TOML, flags) and the cells at hand make a plan: a list of [`cell`]s in shuffled rounds;
//! 2. [`run`] starts one fresh process for each cell; the process has one allocator linked and is a [`worker`];
//! 3. the worker runs a [`workload`], reads [`meters`] at its phases, and answers with a [`sample`];
//! 4. samples are [`rows`] of a file, flushed one by one: what was measured is never lost;
//! 5. a [`summary`] folds rows into medians, intervals and verdicts; [`reports`] show them.
//!
//! Singular modules are contracts, plural ones hold the entries and the list of them, so that a workload, a meter or a
//! report is added with one file and one line.
//!
//! # In a service
//!
//! [`install!`] declares the global allocator with its settings, [`tuning`] changes what can be changed while it runs,
//! [`Ballast`] keeps freed memory through a burst, and `metrics` (feature `prometheus`, off by default) shows its memory
//! to Prometheus. Three structures need no allocator of their own: `arena` (feature `arena`) hands memory out piece by piece
//! and gives it back at once, `sort_buffer` (feature `sort-buffer`) sorts more records than memory holds, in a mapped
//! file, and `blob_tree` (feature `blob-tree`) cuts a stream into a tree of chunks without allocating.

#[cfg(not(target_os = "linux"))]
compile_error!("allocanary reads /proc: it runs on Linux");

pub mod allocator;
pub mod allocators;
#[cfg(feature = "arena")]
pub mod arena;
pub mod ballast;
#[cfg(feature = "blob-tree")]
pub mod blob_tree;
#[cfg(any(feature = "leaks", feature = "prometheus"))]
mod clocks;
pub mod container;
pub mod counting;
pub mod environment;
#[cfg(any(target_env = "gnu", feature = "mimalloc"))]
mod fork_lock;
mod free_list;
#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod heap;
pub mod idle;
pub mod install;
#[cfg(feature = "leaks")]
pub mod leaks;
#[cfg(feature = "prometheus")]
pub mod metrics;
pub mod rng;
pub mod setting;
#[cfg(all(test, feature = "sort-buffer"))]
#[path = "../tests/skipped/mod.rs"]
mod skipped;
#[cfg(feature = "sort-buffer")]
pub mod sort_buffer;
pub mod spec;
pub mod sys;
#[cfg(all(test, feature = "sort-buffer"))]
#[path = "../tests/tiny/mod.rs"]
mod tiny;
pub mod tuning;
pub mod units;
mod wanted;

pub use ballast::Ballast;
#[cfg(feature = "blob-tree")]
pub use blob_tree::BlobTree;

#[cfg(feature = "command")]
pub mod args;
#[cfg(feature = "command")]
pub mod cell;
#[cfg(feature = "command")]
pub mod commands;
#[cfg(feature = "command")]
pub mod description;
#[cfg(feature = "command")]
pub mod doctor;
#[cfg(feature = "command")]
pub mod error;
#[cfg(feature = "command")]
pub mod meter;
#[cfg(feature = "command")]
pub mod meters;
#[cfg(feature = "command")]
pub mod provenance;
#[cfg(feature = "command")]
pub mod report;
#[cfg(feature = "command")]
pub mod reports;
#[cfg(feature = "command")]
pub mod room;
#[cfg(feature = "command")]
pub mod rows;
#[cfg(feature = "command")]
pub mod run;
#[cfg(feature = "command")]
pub mod sample;
#[cfg(feature = "command")]
pub mod study;
#[cfg(feature = "command")]
pub mod summary;
#[cfg(feature = "command")]
pub mod worker;
#[cfg(feature = "command")]
pub mod workload;
#[cfg(feature = "command")]
pub mod workloads;

pub use counting::Counting;
#[cfg(feature = "leaks")]
pub use leaks::Leaks;
