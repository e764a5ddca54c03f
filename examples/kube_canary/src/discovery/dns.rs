//! Peers from DNS: the A and AAAA records of a headless service. In: a name. Out: peers, again when the records' time to
//! live is over.
//!
//! An answer without addresses counts as a failure, and the last peers stay. A headless service is empty for a moment
//! while it is created again, and a server that has lost its data gives the same answer.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig, ResolverOpts};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::{Name, RData, RecordType};

use super::own::{self, Own};
use crate::clock;
use crate::mesh::Shared;
use crate::peer::{self, Peer};

/// The longest time to live. A record may ask to be kept for a day, and a new peer would not be seen until then.
const LONGEST: Duration = Duration::from_secs(60);
const SHORTEST: Duration = Duration::from_secs(1);
/// The wait before the next attempt after a failure.
const RETRY: Duration = Duration::from_secs(5);
/// The kinds of records, and their names in metrics.
const KINDS: [(RecordType, &str); 2] = [(RecordType::A, "A"), (RecordType::AAAA, "AAAA")];
/// A name with more addresses than this is not a headless service.
const MOST: usize = 10_000;

/// Checks that a name is valid. The error says why it can never be resolved: repeated queries for such a name would
/// look like an outage.
pub fn check(name: &str) -> Result<(), String> {
    if name.parse::<IpAddr>().is_ok() {
        return Err(format!("wanted a name, found the address `{name}`; --peer takes addresses"));
    }
    let parsed = Name::from_str(name)
        .map_err(|error| format!("wanted a name such as a.b.svc.cluster.local., found `{name}`: {error}"))?;
    if parsed.is_root() {
        return Err("wanted a name such as a.b.svc.cluster.local., found none".into());
    }
    Ok(())
}

/// Asks the name servers.
#[derive(Clone)]
pub struct Resolver(TokioResolver);

/// The known addresses of one family.
#[derive(Default)]
struct Family {
    addresses: Vec<IpAddr>,
    ttl: Duration,
}

impl Resolver {
    /// A resolver that asks the name servers of `/etc/resolv.conf`.
    pub fn of_system() -> Result<Self, String> {
        let builder = TokioResolver::builder_tokio().map_err(|error| format!("/etc/resolv.conf: {error}"))?;
        Resolver::build(builder)
    }

    /// Asks only this server.
    pub fn of_server(server: SocketAddr) -> Result<Self, String> {
        let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(|mut connection| {
            connection.port = server.port();
            connection
        });
        let server = NameServerConfig::new(server.ip(), true, connections.to_vec());
        let config = ResolverConfig::from_name_servers(vec![server]);
        Resolver::build(TokioResolver::builder_with_config(config, TokioRuntimeProvider::default()))
    }

    fn build(mut builder: hickory_resolver::ResolverBuilder<TokioRuntimeProvider>) -> Result<Self, String> {
        let options: &mut ResolverOpts = builder.options_mut();
        // The resolver has no cache, because the answer is kept here, for exactly its time to live.
        options.cache_size = 0;
        options.timeout = Duration::from_secs(2);
        options.attempts = 2;
        options.try_tcp_on_error = true;
        builder.build().map(Resolver).map_err(|error| error.to_string())
    }

    /// All addresses of a name. If one family fails and the other has addresses, this is not an error.
    ///
    /// # Errors
    /// What a name server said, or that none answered.
    pub async fn addresses(&self, name: &str) -> Result<Vec<IpAddr>, String> {
        self.both(name).await.map(|(addresses, _)| addresses)
    }

    async fn both(&self, name: &str) -> Result<(Vec<IpAddr>, Duration), String> {
        let (mut found, mut ttl, mut problem) = (Vec::new(), LONGEST, None);
        for (kind, _) in KINDS {
            match self.family(name, kind).await {
                Ok(family) if !family.addresses.is_empty() => {
                    found.extend(family.addresses);
                    ttl = ttl.min(family.ttl);
                }
                Ok(_) => {}
                Err(why) => problem = problem.or(Some(why)),
            }
        }
        match problem {
            Some(why) if found.is_empty() => Err(why),
            _ => Ok((found, ttl)),
        }
    }

    /// The addresses of one family. An empty list is not an error.
    async fn family(&self, name: &str, kind: RecordType) -> Result<Family, String> {
        let lookup = match self.0.lookup(name, kind).await {
            Ok(lookup) => lookup,
            Err(error) if is_empty(&error) => return Ok(Family::default()),
            Err(error) => return Err(format!("{name} {kind}: {}", crate::error::causes(&error))),
        };
        let address = |data: &RData| match data {
            RData::A(address) => Some(IpAddr::V4(address.0)),
            RData::AAAA(address) => Some(IpAddr::V6(address.0)),
            _ => None,
        };
        let answers = || lookup.answers().iter().filter_map(|record| Some((address(&record.data)?, record.ttl)));
        let ttl = answers().map(|(_, ttl)| ttl).min().unwrap_or_default();
        let mut addresses: Vec<IpAddr> = answers().map(|(address, _)| address.to_canonical()).collect();
        addresses.sort_unstable();
        addresses.dedup();
        if let Some((address, why)) = addresses.iter().find_map(|address| Some((address, peer::check(*address).err()?)))
        {
            return Err(format!("{name} {kind}: {why}: {address}"));
        }
        if addresses.len() > MOST {
            return Err(format!("{name} {kind}: wanted at most {MOST} addresses, found {}", addresses.len()));
        }
        Ok(Family { addresses, ttl: Duration::from_secs(u64::from(ttl)) })
    }
}

/// Whether the server answered that the name has no records.
fn is_empty(error: &NetError) -> bool {
    error.is_no_records_found() || error.is_nx_domain()
}

/// Resolves `name` for ever.
pub async fn watch(resolver: Resolver, name: String, own: Own, mesh: Shared) {
    let mut known: [Family; 2] = Default::default();
    for (_, called) in KINDS {
        mesh.lock().tallies.resolves(called);
    }
    loop {
        let wait = refresh(&resolver, &name, &own, &mut known, &mesh).await;
        tokio::time::sleep(wait).await;
    }
}

/// Resolves the names of hosts for ever; each has a node's name. A host that fails keeps its addresses.
pub async fn watch_hosts(resolver: Resolver, hosts: Vec<(String, String)>, own: Own, mesh: Shared) {
    let mut known: Vec<Vec<IpAddr>> = vec![Vec::new(); hosts.len()];
    loop {
        let (mut wait, mut problem) = (LONGEST, None);
        for ((host, _), known) in hosts.iter().zip(&mut known) {
            match resolver.both(host).await {
                Ok((found, ttl)) if !found.is_empty() => {
                    *known = found;
                    wait = wait.min(ttl.max(RETRY));
                }
                outcome => {
                    problem.get_or_insert(outcome.err().unwrap_or_else(|| format!("{host} has no addresses")));
                    wait = RETRY;
                }
            }
        }
        let named = hosts.iter().zip(&known);
        let peers = named.flat_map(|((_, node), known)| known.iter().map(move |address| Peer::on(*address, node)));
        match own.others(peers.collect()) {
            Err(error) => super::fail(&mesh, "hosts", format!("{}: {error}", own::ASKING)),
            Ok(peers) => match problem {
                None => super::succeed(&mesh, "hosts", peers),
                Some(problem) => {
                    mesh.lock().update("hosts", peers, clock::now());
                    super::fail(&mesh, "hosts", problem);
                }
            },
        }
        tokio::time::sleep(wait).await;
    }
}

/// Resolves once, and returns for how long the answer is valid. If a family fails, its last addresses stay.
async fn refresh(resolver: &Resolver, name: &str, own: &Own, known: &mut [Family; 2], mesh: &Shared) -> Duration {
    let mut problem = None;
    let mut found = Vec::new();
    for ((kind, called), known) in KINDS.into_iter().zip(&mut *known) {
        let begun = clock::now();
        let family = resolver.family(name, kind).await;
        mesh.lock().tallies.resolved(called, clock::now() - begun);
        match family {
            Ok(family) => found.push(Some(family)),
            Err(text) => {
                found.push(None);
                // If a family never had an address, a server that cannot answer for it is ignored.
                if kind == RecordType::A || !known.addresses.is_empty() {
                    problem.get_or_insert(text);
                }
            }
        }
    }
    if problem.is_none() && found.iter().flatten().all(|family| family.addresses.is_empty()) {
        problem = Some(format!("{name} has no addresses"));
    }
    if let Some(problem) = problem {
        super::fail(mesh, "dns", problem);
        return RETRY;
    }
    for (known, found) in known.iter_mut().zip(found) {
        *known = found.unwrap_or_default();
    }
    let addresses = known.iter().flat_map(|family| &family.addresses).copied();
    match own.others(addresses.map(Peer::at).collect()) {
        Ok(peers) => super::succeed(mesh, "dns", peers),
        Err(error) => {
            super::fail(mesh, "dns", format!("{}: {error}", own::ASKING));
            return RETRY;
        }
    }
    let ttls = known.iter().filter(|family| !family.addresses.is_empty()).map(|family| family.ttl);
    ttls.min().unwrap_or(RETRY).clamp(SHORTEST, LONGEST)
}

#[cfg(test)]
#[path = "dns_test.rs"]
mod tests;
