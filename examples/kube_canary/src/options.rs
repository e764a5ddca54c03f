//! The options of a canary. In: flags, through `args`. Out: plain values for the other modules.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use crate::histogram::Bounds;
use crate::peer::Peer;
use crate::protocol::Protocol;
use crate::targets::Target;

/// The longest timeout, in intervals: a longer one would not fit in a book's window.
pub const MOST_INTERVALS: u32 = 8;

/// All options of a canary.
#[derive(Clone, Debug)]
pub struct Options {
    /// The name of the node that it runs on.
    pub node: String,
    /// The time from one probe of a peer to the next.
    pub interval: Duration,
    /// A probe without an answer for this long is lost.
    pub timeout: Duration,
    /// How peers are probed; `None` means ICMP, or UDP if ICMP is not permitted.
    pub protocols: Option<Vec<Protocol>>,
    /// Where the web server listens.
    pub listen: SocketAddr,
    /// Where the peers' web servers listen: the port of HTTP probes, TCP probes and `/peers`; 0 means the port of our own.
    pub peer_port: u16,
    /// Where UDP echo requests are answered and sent to.
    pub udp_port: u16,
    /// Threads of the web server; 0 serves on the prober's own thread.
    pub http_threads: usize,
    /// Whether threads of the web server give unused memory back to the system when there are no more requests.
    pub threads_give_back: bool,
    /// Peers that were named one by one.
    pub peers: Vec<Peer>,
    /// Peers that were named by their hosts: name, and the node's name.
    pub peer_hosts: Vec<(String, String)>,
    /// A file of peers, one a line: an address, and perhaps the name of its node.
    pub peers_file: Option<PathBuf>,
    /// A name whose A and AAAA records are the peers.
    pub peers_dns: Option<String>,
    /// Peers from the API server.
    pub kubernetes: Option<Kubernetes>,
    /// A peer that went away keeps its series for this long.
    pub grace: Duration,
    /// The most peers that get probes.
    pub most_probed: usize,
    /// The buckets of round-trip times.
    pub bounds: Bounds,
    /// All series of each peer; otherwise only those that the alerts need, 12 for a peer by two protocols.
    pub all_series: bool,
    /// With `all_series`, quantiles are shown instead of histograms. They need fewer series.
    pub quantiles: bool,
    /// Native histograms too, for a Prometheus that asks for them.
    pub native: bool,
    /// Whether addresses of peers are labels even if nodes can be distinguished without them. Addresses change with
    /// each rollout.
    pub label_addresses: bool,
    /// This canary's own addresses are peers too.
    pub probe_self: bool,
    /// Targets outside of the mesh that should answer.
    pub targets: Vec<Target>,
    /// The time from one check of a target to the next.
    pub target_interval: Duration,
    /// Own addresses. They are left out unless `probe_self`, even if a source names them.
    pub own_addresses: Vec<IpAddr>,
}

impl Options {
    /// The name of this canary for the choice of peers: its own address, as other canaries see it, if it is known.
    pub fn ring_name(&self) -> String {
        self.own_addresses.first().map_or_else(|| self.node.clone(), IpAddr::to_string)
    }

    /// The port of the peers' web servers. `chosen` is the port of our own, which the kernel chooses if the option is
    /// 0.
    pub fn port_of_peers(&self, chosen: u16) -> u16 {
        if self.peer_port == 0 { chosen } else { self.peer_port }
    }
}

/// Which EndpointSlices name the peers.
#[derive(Clone, Debug)]
pub struct Kubernetes {
    /// The namespace. `None` means the service account's own.
    pub namespace: Option<String>,
    /// The headless service that the slices belong to.
    pub service: String,
    /// Whether nodes are watched too, for zones and cordons: needs a cluster role.
    pub nodes: bool,
}

impl Default for Options {
    /// The options without flags, on a host without a name.
    fn default() -> Self {
        Options {
            node: "localhost".into(),
            interval: Duration::from_secs(1),
            timeout: Duration::from_secs(1),
            protocols: None,
            listen: (Ipv6Addr::UNSPECIFIED, 9427).into(),
            peer_port: 9427,
            udp_port: 8917,
            http_threads: 0,
            threads_give_back: false,
            peers: vec![],
            peer_hosts: vec![],
            targets: vec![],
            target_interval: Duration::from_secs(15),
            peers_file: None,
            peers_dns: None,
            kubernetes: None,
            grace: Duration::from_secs(60),
            most_probed: usize::MAX,
            bounds: Bounds::default(),
            all_series: false,
            quantiles: false,
            native: false,
            label_addresses: false,
            probe_self: false,
            own_addresses: vec![],
        }
    }
}
