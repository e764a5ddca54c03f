//! kube_canary: one canary on every node. Each probes all others and shows Prometheus the results. Its memory does not
//! grow with the cores of the node.
//!
//! Data flow in one direction:
//!
//! 1. [`discovery`] finds the peers (flags, a file, DNS, Kubernetes) and updates the [`mesh`];
//! 2. the [`prober`] probes each peer of the mesh every interval, and records replies and losses in the peer's
//!    [`book`];
//! 3. the [`targets`] outside of the mesh are asked now and then;
//! 4. the [`web`] server reads the mesh: metrics, health, JSON and a page to look at.
//!
//! These parts share only the mesh. Everything runs on one thread, independent of the number of cores.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod args;
pub mod book;
pub mod canary;
pub mod clock;
pub mod discovery;
pub mod error;
pub mod histogram;
pub mod latest;
pub mod mesh;
pub mod native;
pub mod options;
pub mod peer;
pub mod prober;
pub mod protocol;
mod say;
pub mod settle;
pub mod tallies;
pub mod targets;
pub mod web;

pub use canary::command;
