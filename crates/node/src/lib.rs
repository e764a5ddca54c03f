//! Internal to [allocanary](https://docs.rs/allocanary): this crate has no stable API, and any release may change it.
//!
//! The agent of a node: what the allocators of all its processes keep, within one hundredth of a core. Data flow in one direction:
//!
//! 1. A [`World`](world::World) tells of each process, each minute, who it is and what is resident (`stat`), where it belongs (`group`), and
//!    what its allocator counts by itself.
//! 2. In between, as the budget allows (`schedule`), a child reads the heap of the process that needs it most ([`look`]).
//! 3. What is known of processes (`known`) becomes rows, a container each, with the names that the kubelet tells (`names`).
//! 4. The report is served as metrics, as JSON, and as a page ([`run`]).
//!
//! It stops no process, injects nothing into one, and reads no `smaps`.

#![deny(clippy::print_stdout, clippy::print_stderr, clippy::dbg_macro)]

mod agent;
pub mod client;
mod group;
mod known;
pub mod look;
pub mod metrics;
mod names;
pub mod run;
mod schedule;
mod server;
mod stat;
pub mod world;
