//! Who the peers are. In: flags, a file, DNS, the API server. Out: updates of the mesh, each with all that a source knows.
//!
//! Each source is a file of this folder. A source that fails keeps what it said last and counts the failure: an outage of
//! DNS or of the API must not look like an outage of the peers.

mod dns;
mod file;
#[cfg(feature = "kubernetes")]
mod kubernetes;
mod names;
#[cfg(feature = "kubernetes")]
mod reflect;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::time::{SystemTime, UNIX_EPOCH};

pub use dns::{Resolver, check as check_name};
pub use names::NODE_HEADER;

use crate::clock;
use crate::error::{Error, Result};
use crate::mesh::Shared;
use crate::options::Options;
use crate::peer::Peer;

/// Says who the peers are at once where that is possible, and keeps doing so on the runtime that it is called in.
pub fn start(options: &Options, mesh: &Shared) -> Result<()> {
    if !options.peers.is_empty() {
        succeed(mesh, "flags", options.peers.clone());
    }
    if let Some(path) = &options.peers_file {
        let file = file::PeersFile::open(path)?;
        succeed(mesh, "file", file.peers());
        tokio::spawn(file.watch(mesh.clone()));
    }
    if let Some(name) = &options.peers_dns {
        let resolver = Resolver::of_system().map_err(|problem| Error::Input(format!("--peers-dns: {problem}")))?;
        tokio::spawn(dns::watch(resolver, name.clone(), own(options), mesh.clone()));
    }
    match &options.kubernetes {
        #[cfg(feature = "kubernetes")]
        Some(kubernetes) => drop(tokio::spawn(kubernetes::watch(kubernetes.clone(), own(options), mesh.clone()))),
        #[cfg(not(feature = "kubernetes"))]
        Some(_) => {
            return Err(Error::Input("--kubernetes: this canary was built without the feature `kubernetes`".into()));
        }
        None if options.peers_dns.is_none() && options.peers_file.is_none() && options.peers.is_empty() => {
            // Nobody was named: itself, so that it runs anywhere at once.
            succeed(mesh, "flags", loopback(&options.node));
        }
        None => {}
    }
    tokio::spawn(names::learn(options.peer_port, mesh.clone()));
    Ok(())
}

/// This host, by each family that it has.
fn loopback(node: &str) -> Vec<Peer> {
    let own: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    own.into_iter().filter(|address| is_own(*address)).map(|address| Peer::on(address, node)).collect()
}

/// An address that a socket can be bound to is of this host: asking so needs no list of interfaces, which change. Where
/// the kernel lets foreign addresses be bound too (ip_nonlocal_bind), it says nothing, and only the loopback is known.
fn is_own(address: IpAddr) -> bool {
    // Addresses of the documentation's, which nobody has.
    let foreign: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::new(192, 0, 2, 1).into(),
        IpAddr::V6(_) => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(),
    };
    let binds = |address: IpAddr| UdpSocket::bind((address, 0)).is_ok();
    binds(address) && (address.is_loopback() || !binds(foreign))
}

/// A refresh gave peers.
fn succeed(mesh: &Shared, source: &'static str, peers: Vec<Peer>) {
    let mut mesh = mesh.lock();
    mesh.update(source, peers, clock::now());
    let tally = mesh.tallies.sources.entry(source).or_default();
    tally.succeeded += 1;
    tally.problem = None;
    tally.last_success = SystemTime::now().duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs());
}

/// A refresh failed; the peers stay. Says so on standard error when the problem is a new one.
fn fail(mesh: &Shared, source: &'static str, problem: String) {
    let mut mesh = mesh.lock();
    let tally = mesh.tallies.sources.entry(source).or_default();
    tally.failed += 1;
    if tally.problem.as_ref() != Some(&problem) {
        eprintln!("kube_canary: peers from {source}: {problem}; the last known peers are kept");
        tally.problem = Some(problem);
    }
}

/// Tells the canary's own addresses, which are no peers unless it was told so.
#[derive(Clone, Debug)]
struct Own {
    addresses: Vec<IpAddr>,
    probed: bool,
}

fn own(options: &Options) -> Own {
    Own { addresses: options.own_addresses.clone(), probed: options.probe_self }
}

impl Own {
    /// Whether a source may name this address: anybody's but this canary's own.
    fn admits(&self, address: IpAddr) -> bool {
        self.probed || !(self.addresses.contains(&address) || is_own(address))
    }
}
