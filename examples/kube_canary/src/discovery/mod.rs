//! Who the peers are. In: flags. Out: the mesh, updated.

use std::net::{IpAddr, Ipv6Addr, UdpSocket};

use crate::clock;
use crate::error::Result;
use crate::mesh::Shared;
use crate::options::Options;
use crate::peer::Peer;

/// Updates the mesh with the peers that are known at once: those of the flags, or this host itself where no flag names a
/// source of peers.
pub fn start(options: &Options, shared: Shared) -> Result<()> {
    let elsewhere = options.peers_file.is_some() || options.peers_dns.is_some() || options.kubernetes.is_some();
    if !options.peers.is_empty() {
        let own = |peer: &&Peer| options.probe_self || !options.own_addresses.contains(&peer.address);
        let peers = options.peers.iter().filter(own).cloned().collect();
        shared.lock().update("flags", peers, clock::now());
    } else if !elsewhere {
        shared.lock().update("loopback", loopback(&options.node), clock::now());
    }
    Ok(())
}

/// This host, by each family that it has.
fn loopback(node: &str) -> Vec<Peer> {
    let mut peers = vec![Peer::on(IpAddr::from([127, 0, 0, 1]), node)];
    if UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).is_ok() {
        peers.push(Peer::on(Ipv6Addr::LOCALHOST.into(), node));
    }
    peers
}
