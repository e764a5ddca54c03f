//! What agents report about nodes, as values. An agent makes a [`NodeReport`] of its node: a [`ContainerState`] for each container, whose [`Parts`]
//! add up to the resident bytes. [`Fleet`] adds up the reports of many nodes by workload. Nothing here reads a process or a network.

mod parts;
mod report;
mod workloads;

pub use allocanary_text::parts::{PARTS, Part, Parts};
pub use parts::now;
pub use report::{Bound, ContainerState, Follows, Machine, NodeReport, OtlpDelivery, Own, SCHEMA};
pub use workloads::{Fleet, ReplicaSet, of_replica};
