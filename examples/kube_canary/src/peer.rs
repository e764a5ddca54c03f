//! A peer: another canary. In: what discovery found. Out: an address to probe, and names to show it by.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use serde::{Serialize, Serializer};

/// Checks that a host can answer at an address. The error says why no host ever can.
pub fn check(address: IpAddr) -> Result<(), &'static str> {
    match address {
        _ if address.is_unspecified() => Err("wanted the address of one host, not of none"),
        _ if address.is_multicast() => Err("wanted the address of one host, not of a multicast group"),
        IpAddr::V4(Ipv4Addr::BROADCAST) => Err("wanted the address of one host, not of all"),
        _ => Ok(()),
    }
}

/// Another canary, or any address that answers. Two peers are the same if their addresses are equal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Peer {
    /// Where probes go.
    pub address: IpAddr,
    /// The name of the node on which it runs. Empty while it is not known. The list of its source and the mesh share this text.
    #[serde(serialize_with = "text")]
    pub node: Arc<str>,
    /// The zone of that node; empty if it has none, or if it is not known.
    pub zone: Box<str>,
    /// Whether the node takes no new pods. Then the end of this peer is no reason for an alarm.
    pub cordoned: bool,
}

impl Peer {
    /// A peer with only an address.
    pub fn at(address: IpAddr) -> Self {
        Peer { address, node: "".into(), zone: "".into(), cordoned: false }
    }

    /// A peer on a node.
    pub fn on(address: IpAddr, node: &str) -> Self {
        Peer { node: node.into(), ..Peer::at(address) }
    }
}

fn text<S: Serializer>(text: &Arc<str>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(text)
}
