//! kube_canary: one on every node, each probes all others and shows Prometheus what it found, in memory that does not
//! follow the cores of the node.
//!
//! Data flow one way:
//!
//! 1. [`discovery`] says who the peers are (flags, a file, DNS, Kubernetes) and updates the [`mesh`];
//! 2. the [`prober`] sends to each peer of the mesh every interval, and writes what comes back, or does not, in its
//!    [`book`];
//! 3. the [`targets`] outside of the mesh are asked now and then;
//! 4. the [`web`] server reads the mesh: metrics, health, JSON and a page to look at.
//!
//! The mesh is the only thing that these share. All of it runs on one thread, whatever the cores.

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
