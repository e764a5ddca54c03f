//! Finds the peers. In: flags, a file, DNS, the API server. Out: updates of the mesh, each with all peers that a source
//! knows.
//!
//! Each source is a file of this folder. If a source fails, its last peers stay and the failure is counted: an outage of
//! DNS or of the API must not look like an outage of the peers.

mod dns;
mod file;
#[cfg(feature = "kubernetes")]
mod kubernetes;
mod names;
mod own;
#[cfg(feature = "kubernetes")]
mod reflect;

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::panic::resume_unwind;
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::task::{JoinError, JoinSet};

pub use dns::{Resolver, check as check_name};
pub use names::NODE_HEADER;
use own::Own;

use crate::clock;
use crate::error::{Error, Result};
use crate::mesh::Shared;
use crate::options::Options;
use crate::peer::Peer;
use crate::say::say;
use crate::targets;

/// Updates the mesh immediately if that is possible, and starts tasks on the present runtime that keep it up to date.
pub fn start(options: &Options, mesh: &Shared) -> Result<Sources> {
    let mut tasks = JoinSet::new();
    let own = Own::of(options);
    let unknown = |error| Error::System { what: own::ASKING, error };
    if !options.peers.is_empty() {
        succeed(mesh, "flags", own.none_of("flags", options.peers.clone()).map_err(unknown)?);
    }
    if let Some(path) = &options.peers_file {
        let (file, peers) = file::PeersFile::open(path)?;
        succeed(mesh, "file", own.none_of("file", peers).map_err(unknown)?);
        tasks.spawn(file.watch(own.clone(), mesh.clone()));
    }
    if let Some(name) = &options.peers_dns {
        let no_resolver = |problem| Error::System { what: "--peers-dns", error: io::Error::other(problem) };
        let resolver = Resolver::of_system().map_err(no_resolver)?;
        tasks.spawn(dns::watch(resolver, name.clone(), own.clone(), mesh.clone()));
    }
    if !options.peer_hosts.is_empty() {
        let no_resolver = |problem| Error::System { what: "--peer HOST", error: io::Error::other(problem) };
        let resolver = Resolver::of_system().map_err(no_resolver)?;
        tasks.spawn(dns::watch_hosts(resolver, options.peer_hosts.clone(), own.clone(), mesh.clone()));
    }
    if !options.targets.is_empty() {
        targets::start(&options.targets, options.target_interval, Resolver::of_system(), mesh);
    }
    match &options.kubernetes {
        #[cfg(feature = "kubernetes")]
        Some(kubernetes) => drop(tasks.spawn(kubernetes::watch(kubernetes.clone(), own, mesh.clone()))),
        #[cfg(not(feature = "kubernetes"))]
        Some(_) => {
            return Err(Error::Input("--kubernetes: this canary was built without the feature `kubernetes`".into()));
        }
        None if options.peers_dns.is_none()
            && options.peers_file.is_none()
            && options.peers.is_empty()
            && options.peer_hosts.is_empty() =>
        {
            // If no peer is named, the canary probes itself, so that it runs anywhere without flags.
            succeed(mesh, "flags", itself(options));
        }
        None => {}
    }
    tasks.spawn(names::learn(options.peer_port, mesh.clone()));
    Ok(Sources(tasks))
}

/// The tasks that follow the sources. None of them ever ends by itself.
pub struct Sources(JoinSet<()>);

impl Sources {
    /// Follows them for ever. A panic in a task becomes a panic here: without its task, a source's peers would look as if they never
    /// changed.
    pub async fn follow(mut self) -> Infallible {
        while let Some(ended) = self.0.join_next().await {
            if let Err(Ok(panic)) = ended.map_err(JoinError::try_into_panic) {
                resume_unwind(panic);
            }
        }
        pending().await
    }
}

/// This host, at the addresses of its web server. If the server listens on all addresses, these are the loopback addresses of the families
/// that the server and the host have. Otherwise it is the one address.
fn itself(options: &Options) -> Vec<Peer> {
    let loopback: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    let addresses = match options.listen.ip().to_canonical() {
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => {
            loopback.into_iter().filter(|address| own::binds(*address).unwrap_or(false)).collect()
        }
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => vec![loopback[0]],
        address => vec![address],
    };
    addresses.into_iter().map(|address| Peer::on(address, &options.node)).collect()
}

/// Notes a refresh that gave peers.
fn succeed(mesh: &Shared, source: &'static str, peers: Vec<Peer>) {
    let mut mesh = mesh.lock();
    mesh.update(source, peers, clock::now());
    let tally = mesh.tallies.sources.entry(source).or_default();
    tally.succeeded += 1;
    tally.problem = None;
    tally.last_success = SystemTime::now().duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs());
}

/// Notes a refresh that failed. The peers stay. A new problem is written to standard error.
fn fail(mesh: &Shared, source: &'static str, problem: String) {
    let line = format!("peers from {source}: {problem}; the last known peers are kept");
    let is_new = {
        let mut mesh = mesh.lock();
        let tally = mesh.tallies.sources.entry(source).or_default();
        tally.failed += 1;
        let before = tally.problem.replace(problem);
        before != tally.problem
    };
    // A slow reader of standard error must not delay code that needs the mesh.
    if is_new {
        say(&line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_that_panics_does_not_end_in_silence() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn_on(pending(), runtime.handle());
        tasks.spawn_on(async { panic!("as a test wants it") }, runtime.handle());
        let follow = || runtime.block_on(async { Sources(tasks).follow().await });
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(follow)).unwrap_err();
        assert_eq!(caught.downcast_ref::<&str>(), Some(&"as a test wants it"));
    }

    #[test]
    fn without_peers_it_is_this_host_where_it_listens() {
        let itself = |listen: &str| {
            let options = Options { listen: listen.parse().unwrap(), ..Options::default() };
            itself(&options).iter().map(|peer| peer.address.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(itself("0.0.0.0:1"), ["127.0.0.1"]);
        assert_eq!(itself("127.0.0.1:1"), ["127.0.0.1"]);
        assert_eq!(itself("[::ffff:127.0.0.2]:1"), ["127.0.0.2"]);
        assert_eq!(itself("[::1]:1"), ["::1"]);
        assert_eq!(itself("[::]:1")[0], "127.0.0.1");
    }
}
