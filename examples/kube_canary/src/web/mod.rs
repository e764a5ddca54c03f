//! The web server. In: the mesh, and requests of Prometheus, of Kubernetes, of other canaries and of people. Out: metrics,
//! health, JSON and a page.
//!
//! Memory is bounded by design. The number of connections is limited, and each has a small buffer. Pages have a budget, which is charged as
//! they grow. For a while, the page of a slow reader is also sent to other requests. A client that reads too slowly is dropped.

mod brief;
mod budget;
mod checks;
mod client;
mod exposition;
mod facts;
mod gather;
mod json;
mod labels;
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
