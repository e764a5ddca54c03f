//! Integration tests of kube_canary, one binary with a module for each part.

#![allow(clippy::disallowed_methods)]

mod alerts;
mod canary;
mod chart;
mod command;
mod hardship;
mod image;
mod input;
mod manifests;
mod probes;
mod support;
#[cfg(feature = "kubernetes")]
mod targets;
