//! The web server. In: the mesh, and requests of Prometheus, of Kubernetes, of other canaries and of people. Out: metrics,
//! health, JSON and a page.
//!
//! Memory is bounded by design: so many connections, each with a small buffer; pages have a budget, from which each takes
//! what it grows by; whoever reads slowly shares his page with others for a time, and is dropped after a longer one.

mod brief;
mod budget;
mod checks;
mod client;
mod connection;
mod exposition;
mod facts;
mod gather;
mod json;
mod labels;
mod lobby;
mod metrics;
mod negotiation;
mod page;
mod pages;
mod press;
mod protobuf;
mod quiet;
mod readiness;
mod routes;
mod series;
mod server;
mod verdict;

pub use facts::Facts;
pub use server::Server;
