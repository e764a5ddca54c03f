//! Internal to [allocanary](https://docs.rs/allocanary): this crate has no stable API, and any release may change it.
//!
//! The agent of a node. It reports what the allocators of all processes keep, and uses at most one hundredth of a core. Data flow in one
//! direction:
//!
//! 1. Each minute a [`World`](world::World) says of each process who it is and what is resident (`stat`), and where it belongs (`group`).
//! 2. A child reads memory ([`look`]). Each minute it reads the counters of allocators. In between, as the budget allows (`schedule`), it
//!    reads the heap of the process that needs it most.
//! 3. The records of processes (`known`) become rows, one for each container. The names come from the kubelet (`names`, `asking`). The
//!    agent's own costs are added (`costs`).
//! 4. Anybody may request the profile of a process (`profiles`). The same child reads it, between two steps.
//! 5. The report is put on the desk (`desk`). From there another thread serves it as metrics, as JSON, and as a page ([`run`]), and sends
//!    the metrics to a receiver of OTLP (`otlp`, feature of the same name).
//! 6. If the user wants it, the pages are served by TLS ([`certificate`]), and only to clients to whom the API server gives the right
//!    ([`gate`], `verdicts`).
//!
//! The agent stops no process and injects nothing into one.

#![deny(clippy::print_stdout, clippy::print_stderr, clippy::dbg_macro)]
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod agent;
mod asking;
pub mod certificate;
pub mod client;
mod costs;
mod desk;
#[cfg(test)]
mod fake;
pub mod gate;
mod group;
mod known;
pub mod look;
pub mod metrics;
mod names;
#[cfg(feature = "otlp")]
mod otlp;
mod pages;
mod profiles;
mod rows;
pub mod run;
mod schedule;
mod server;
mod stat;
mod verdicts;
pub mod world;
