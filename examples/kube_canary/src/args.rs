//! The command line. In: what the user typed, and the environment. Out: plain options. This is the only file that uses clap.

mod values;

use std::ffi::OsString;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, ValueEnum};

use crate::error::{Error, Result};
use crate::histogram::Bounds;
use crate::options::{Kubernetes, MOST_INTERVALS, Options};
#[cfg(test)]
use crate::peer::Peer;
use crate::protocol::Protocol;
use crate::targets::Target;

const EXAMPLES: &str = "\
Examples:
  kube_canary
        probe this host itself, and show it at http://localhost:9427/
  kube_canary --peer 10.0.0.1=node-a --peer 10.0.0.2=node-b --protocol icmp,tcp
        probe two nodes every second, in two ways
  kube_canary --peers-dns canary.monitoring.svc.cluster.local.
        probe all pods of a headless service; needs no rights in the cluster
  kube_canary --kubernetes --kubernetes-nodes --peers-max 50
        probe the pods of the service kube-canary by the names of their nodes, 50 for each canary

Exit codes: 0 after SIGTERM or SIGINT, 1 where the system refuses something, 2 where the command line cannot be.";

/// Probe all peers every second and show Prometheus latency, loss and jitter of each.
///
/// One on every node; all probe each other. Its memory does not follow the cores of its node.
#[derive(Parser)]
#[command(name = "kube_canary", version, max_term_width = 100, after_help = EXAMPLES)]
struct Line {
    #[command(flatten)]
    probing: Probing,
    #[command(flatten)]
    peers: Peers,
    #[command(flatten)]
    targets: Targets,
    #[command(flatten)]
    metrics: Metrics,
    #[command(flatten)]
    surroundings: Surroundings,
}

#[derive(Args)]
#[command(next_help_heading = "Probing")]
struct Probing {
    /// From one probe of a peer to the next: 1s, 500ms, 1m.
    #[arg(long, value_name = "SPAN", default_value = "1s", value_parser = values::span)]
    interval: Duration,
    /// A probe without an answer for so long is lost; at most 8 intervals [default: the interval].
    #[arg(long, value_name = "SPAN", value_parser = values::span)]
    timeout: Option<Duration>,
    /// How peers are probed [default: icmp, or udp where ICMP is not permitted].
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = protocol())]
    protocol: Option<Vec<Protocol>>,
    /// The port of the peers' web servers: where TCP and HTTP probes go [default: that of --listen].
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    peer_port: Option<u16>,
    /// The port of UDP echo, here and at the peers.
    #[arg(long, value_name = "PORT", default_value_t = 8917, value_parser = clap::value_parser!(u16).range(1..))]
    udp_port: u16,
}

#[derive(Args)]
#[command(next_help_heading = "Peers (none given: this host itself)")]
struct Peers {
    /// A peer, and perhaps its node; may be repeated. The name of a host is resolved again and again.
    #[arg(long, value_name = "ADDRESS|HOST[=NODE]", value_parser = values::peer)]
    peer: Vec<values::Named>,
    /// A file of peers, one a line: an address, and perhaps its node. Read again when it changes.
    #[arg(long, value_name = "FILE")]
    peers_file: Option<PathBuf>,
    /// All A and AAAA records of this name, such as a headless service's.
    #[arg(long, value_name = "NAME", value_parser = values::dns_name)]
    peers_dns: Option<String>,
    /// The endpoints of a service, from the API server.
    #[arg(long)]
    kubernetes: bool,
    /// Which service; turns --kubernetes on [default: kube-canary].
    #[arg(long, value_name = "NAME")]
    kubernetes_service: Option<String>,
    /// Its namespace; turns --kubernetes on [default: the pod's own].
    #[arg(long, value_name = "NAME")]
    kubernetes_namespace: Option<String>,
    /// Watch nodes too, for zones and cordons; turns --kubernetes on, needs a cluster role.
    #[arg(long)]
    kubernetes_nodes: bool,
    /// A peer that went away keeps its series for so long.
    #[arg(long, value_name = "SPAN", default_value = "60s", value_parser = values::span_or_zero)]
    grace: Duration,
    /// The most peers to probe; the canaries share the rest out among them [default: all].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    peers_max: Option<u32>,
    /// Probe own addresses too.
    #[arg(long)]
    probe_self: bool,
}

#[derive(Args)]
#[command(next_help_heading = "Targets outside of the mesh")]
struct Targets {
    /// dns:NAME, tcp:HOST:PORT, http://HOST/PATH or https://HOST/PATH, such as an ingress or the API server
    /// (https://kubernetes.default.svc/readyz); may be repeated. Whose certificates are trusted: those of the service account's CA
    /// and of the system; if the environment variable SSL_CERT_FILE names a file (PEM), those of that file only.
    #[arg(long, value_name = "TARGET", value_parser = Target::parse)]
    target: Vec<Target>,
    /// From one check of a target to the next.
    #[arg(long, value_name = "SPAN", default_value = "15s", value_parser = values::span)]
    target_interval: Duration,
}

#[derive(Args)]
#[command(next_help_heading = "Metrics")]
struct Metrics {
    /// Where metrics, health and the page are served; port 0 is one that the kernel chooses, and is said.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "[::]:9427")]
    listen: SocketAddr,
    /// Threads of the web server; 0 serves on the prober's own.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(..=1024))]
    http_threads: u16,
    /// The web server's threads give back 200 ms after the last request: each its cache, the free pages of its arena and of its
    /// stack, as far as the allocator can. Needs --http-threads.
    #[arg(long)]
    threads_give_back: bool,
    /// The series of each peer [default: basic, or all with --latency or --buckets].
    #[arg(long, value_name = "SET", value_enum)]
    series: Option<Series>,
    /// How round-trip times are shown among all series; quantiles are of the last 64 replies, are fewer series, and cannot be
    /// added up over peers [default: histogram].
    #[arg(long, value_name = "FORM", value_enum)]
    latency: Option<Latency>,
    /// Addresses of peers as the label `peer_ip`: each rollout of the canaries then makes all series anew. Without it only peers
    /// whose node's name is another one's too have it.
    #[arg(long)]
    label_peer_ip: bool,
    /// Upper bounds of the histogram, in seconds [default: 11 from 50 us to 1 s].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    buckets: Option<Vec<f64>>,
}

#[derive(Args)]
#[command(next_help_heading = "This canary")]
struct Surroundings {
    /// The node that it runs on [default: the host's name].
    #[arg(long, value_name = "NAME", env = "NODE_NAME")]
    node: Option<String>,
    /// Its own address, or several; not probed without --probe-self, whoever names it.
    #[arg(long, value_name = "LIST", env = "POD_IP", value_delimiter = ',')]
    pod_ip: Vec<IpAddr>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Series {
    /// Replies, losses by reason, and whether it is up, by each protocol; the median and the 99th percentile of the last 64
    /// round trips by the first: 12 for a peer by two protocols.
    Basic,
    /// 25 for each peer and protocol, 16 with --latency quantiles.
    All,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Latency {
    /// A histogram for each peer.
    Histogram,
    /// The median, the 90th and the 99th percentile of each peer.
    Quantiles,
    /// A native histogram for each peer, whose buckets are 9 % wide, for a Prometheus that asks for it (protobuf); a histogram for
    /// others.
    Native,
}

/// The options of this process. Help, version, and arguments that cannot be parsed end the process, with code 0 or 2.
///
/// # Errors
/// If each flag is valid, but flags do not fit together.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Options> {
    options(Line::try_parse_from(arguments).unwrap_or_else(|error| error.exit()))
}

fn options(line: Line) -> Result<Options> {
    let Line { probing, peers, targets, metrics, surroundings } = line;
    let (hosts, named): (Vec<_>, Vec<_>) =
        peers.peer.into_iter().partition(|peer| matches!(peer, values::Named::Host(..)));
    let bounds = match &metrics.buckets {
        Some(seconds) => {
            Bounds::from_seconds(seconds).map_err(|problem| Error::Input(format!("--buckets: {problem}")))?
        }
        None => Bounds::default(),
    };
    let native = metrics.latency == Some(Latency::Native);
    let bounds = if native { bounds.with_native() } else { bounds };
    let of_all = metrics.latency.is_some() || metrics.buckets.is_some();
    if metrics.series == Some(Series::Basic) && of_all {
        let text =
            "--series basic has no such round-trip times; leave out --latency and --buckets, or ask for --series all";
        return Err(Error::Input(text.into()));
    }
    if metrics.threads_give_back && metrics.http_threads == 0 {
        let text = "--threads-give-back: the web server has no threads; add --http-threads N, or leave it out";
        return Err(Error::Input(text.into()));
    }
    let timeout = probing.timeout.unwrap_or(probing.interval);
    if timeout > probing.interval * MOST_INTERVALS {
        return Err(Error::Input(format!(
            "--timeout {timeout:?} is more than {MOST_INTERVALS} intervals of {:?}; raise --interval or lower --timeout",
            probing.interval
        )));
    }
    let kubernetes = peers.kubernetes
        || peers.kubernetes_nodes
        || peers.kubernetes_namespace.is_some()
        || peers.kubernetes_service.is_some();
    if kubernetes && cfg!(not(feature = "kubernetes")) {
        return Err(Error::Input("--kubernetes: built without the feature `kubernetes`; use --peers-dns".into()));
    }
    Ok(Options {
        node: surroundings.node.filter(|name| !name.is_empty()).unwrap_or_else(host_name),
        interval: probing.interval,
        timeout,
        protocols: probing.protocol,
        listen: metrics.listen,
        peer_port: probing.peer_port.unwrap_or(metrics.listen.port()),
        udp_port: probing.udp_port,
        http_threads: metrics.http_threads.into(),
        threads_give_back: metrics.threads_give_back,
        peers: named.into_iter().filter_map(values::Named::peer).collect(),
        peer_hosts: hosts.into_iter().filter_map(values::Named::host).collect(),
        targets: targets.target,
        target_interval: targets.target_interval,
        peers_file: peers.peers_file,
        peers_dns: peers.peers_dns,
        kubernetes: kubernetes.then_some(Kubernetes {
            namespace: peers.kubernetes_namespace,
            service: peers.kubernetes_service.unwrap_or_else(|| "kube-canary".into()),
            nodes: peers.kubernetes_nodes,
        }),
        grace: peers.grace,
        most_probed: peers.peers_max.map_or(usize::MAX, |most| most as usize),
        bounds,
        all_series: of_all || metrics.series == Some(Series::All),
        quantiles: metrics.latency == Some(Latency::Quantiles),
        native,
        label_addresses: metrics.label_peer_ip,
        probe_self: peers.probe_self,
        own_addresses: surroundings.pod_ip,
    })
}

fn protocol() -> impl TypedValueParser<Value = Protocol> {
    let by_name = |name: String| Protocol::ALL.into_iter().find(|protocol| protocol.name() == name);
    PossibleValuesParser::new(Protocol::ALL.map(Protocol::name))
        .map(move |name| by_name(name).unwrap_or(Protocol::Icmp))
}

fn host_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "localhost".into() } else { name.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(flags: &[&str]) -> std::result::Result<Options, String> {
        let line = Line::try_parse_from([&["kube_canary"], flags].concat()).map_err(|error| error.to_string())?;
        options(line).map_err(|error| error.to_string())
    }

    #[test]
    fn the_command_is_well_formed() {
        <Line as clap::CommandFactory>::command().debug_assert();
    }

    #[test]
    fn without_flags_it_probes_itself_every_second() {
        let options = parse(&[]).unwrap();
        assert_eq!((options.interval, options.timeout), (Duration::from_secs(1), Duration::from_secs(1)));
        assert_eq!((options.listen.port(), options.peer_port, options.udp_port), (9427, 9427, 8917));
        let same =
            Options { node: options.node.clone(), own_addresses: options.own_addresses.clone(), ..Options::default() };
        assert_eq!(format!("{options:?}"), format!("{same:?}"), "the library's default is the command's");
        assert!(options.peers.is_empty() && options.protocols.is_none() && options.kubernetes.is_none());
        assert!(!options.node.is_empty());
    }

    #[test]
    fn flags_become_plain_values() {
        let flags = "--interval 500ms --timeout 2s --protocol icmp,http --peer 10.0.0.1=a --peer [::1] --listen 127.0.0.1:80 \
                     --buckets 0.001,0.01 --latency quantiles --peers-max 3 --node n --pod-ip 10.0.0.9,fd00::9 --grace 0s";
        let options = parse(&flags.split_whitespace().collect::<Vec<_>>()).unwrap();
        assert_eq!((options.interval.as_millis(), options.timeout.as_millis()), (500, 2000));
        assert_eq!(options.protocols, Some(vec![Protocol::Icmp, Protocol::Http]));
        assert_eq!(options.peers, [Peer::on(IpAddr::from([10, 0, 0, 1]), "a"), Peer::at("::1".parse().unwrap())]);
        assert_eq!((options.peer_port, options.most_probed, options.quantiles), (80, 3, true));
        assert!(options.all_series && !options.label_addresses, "quantiles are among all series");
        assert_eq!(options.bounds.nanos(), [1_000_000, 10_000_000]);
        assert_eq!((&*options.node, options.own_addresses.len(), options.grace), ("n", 2, Duration::ZERO));
        let options = parse(&["--http-threads", "4", "--threads-give-back"]).unwrap();
        assert_eq!((options.http_threads, options.threads_give_back), (4, true));
    }

    #[test]
    fn what_cannot_be_says_so_and_what_to_do() {
        for (flags, hint) in [
            (&["--interval", "0s"][..], "at least 1ms"),
            (&["--interval", "soon"], "500ms"),
            (&["--timeout", "9s"], "8 intervals"),
            (&["--protocol", "icmp,smtp"], "possible values: icmp, udp, tcp, http"),
            (&["--peer", "node_a b"], "wanted an IP address"),
            (&["--peer", "10.0.0.256"], "wanted an IP address"),
            (&["--target", "smtp://a"], "https://HOST"),
            (&["--target", "tcp:a"], "found no port"),
            (&["--peer", "[[[::1]]]=x"], "wanted an IP address"),
            (&["--peer", "[10.0.0.1]"], "wanted an IP address"),
            (&["--peer", "::1]"], "wanted an IP address"),
            (&["--peer", "0.0.0.0"], "not of none"),
            (&["--peer", "::=x"], "not of none"),
            (&["--peer", "::ffff:255.255.255.255"], "not of all"),
            (&["--peer", "ff02::1"], "multicast"),
            (&["--buckets", "2,1"], "--buckets"),
            (&["--series", "basic", "--latency", "histogram"], "--series all"),
            (&["--listen", "9427"], "--listen"),
            (&["--udp-port", "0"], "--udp-port"),
            (&["--threads-give-back"], "add --http-threads N"),
            (&["--peers-max", "0"], "--peers-max"),
            (&["--peers-dns", "bad..name"], "bad..name"),
            (&["--peers-dns", "."], "found none"),
            (&["--peers-dns", "10.0.0.1"], "--peer takes addresses"),
        ] {
            let error = parse(flags).unwrap_err();
            assert!(error.contains(hint), "{flags:?}: {error}");
        }
    }

    #[test]
    fn a_peer_may_be_a_host_s_name() {
        let options = parse(&["--peer", "a.example", "--peer", "b.example=node-b", "--peer", "10.0.0.1"]).unwrap();
        let hosts = [("a.example", "a.example"), ("b.example", "node-b")];
        assert_eq!(options.peer_hosts, hosts.map(|(host, node)| (host.to_string(), node.to_string())));
        assert_eq!(options.peers, [Peer::at(IpAddr::from([10, 0, 0, 1]))]);
        let options = parse(&["--target", "tcp:a:1", "--target", "dns:b", "--target-interval", "5s"]).unwrap();
        assert_eq!(options.targets.iter().map(Target::name).collect::<Vec<_>>(), ["tcp:a:1", "dns:b"]);
        assert_eq!(options.target_interval, Duration::from_secs(5));
    }

    #[test]
    #[cfg(feature = "kubernetes")]
    fn naming_a_service_turns_kubernetes_on() {
        let kubernetes = parse(&["--kubernetes-service", "c"]).unwrap().kubernetes.unwrap();
        assert_eq!((&*kubernetes.service, kubernetes.namespace), ("c", None));
        // Its own default, too.
        for flags in [&["--kubernetes-service", "kube-canary"][..], &["--kubernetes"]] {
            assert_eq!(&*parse(flags).unwrap().kubernetes.unwrap().service, "kube-canary");
        }
        assert!(parse(&["--kubernetes-nodes"]).unwrap().kubernetes.unwrap().nodes);
    }
}
