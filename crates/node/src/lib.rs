//! Internal to [allocanary](https://docs.rs/allocanary): this crate has no stable API, and any release may change it.
//!
//! The agent of a node. It reports what the allocators of all processes keep, and uses at most one hundredth of a core. Data flow in one
//! direction:
//!
//! 1. A [`World`](world::World) tells of each process, each minute, who it is and what is resident (`stat`), and where it belongs (`group`).
//! 2. A child reads memory ([`look`]): each minute what allocators count by themselves, and in between, as the budget allows (`schedule`),
//!    the heap of the process that needs it most.
//! 3. What is known of processes (`known`) becomes rows, a container each, with the names that the kubelet tells (`names`, `asking`), and
//!    with what the agent costs (`costs`).
//! 4. Whoever asks for the profile of a process (`profiles`) has it read by the same child, between two steps.
//! 5. The report is put on the desk (`desk`), from where another thread serves it as metrics, as JSON, and as a page ([`run`]), and sends the
//!    metrics to a receiver of OTLP (`otlp`, feature of the same name).
//! 6. If the user wants it, pages are served by TLS ([`certificate`]), and only to those of whom the API server says that they may have
//!    them ([`gate`], `verdicts`).
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
mod profiles;
pub mod run;
mod schedule;
mod server;
mod stat;
mod verdicts;
pub mod world;
