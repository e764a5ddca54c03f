//! A real canary in a namespace, and its metrics. In: a node and flags. Out: pages whose metrics can be added up.

use std::net::IpAddr;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::net::{Net, Running};

/// A canary that is ended with its test.
pub struct Canary<'a> {
    net: &'a Net,
    node: usize,
    /// The peers file, if the peers come from one.
    peers: Option<tempfile::NamedTempFile>,
    _process: Running,
}

/// A metrics page.
pub struct Page {
    pub text: String,
}

/// Waits until `is` returns true.
pub fn until(is: impl Fn() -> bool, what: &str) {
    assert!(in_time(is), "waited three minutes until {what}");
}

/// Waits until `is` returns true, but not for ever. A wait that usually takes 38 seconds has taken more than a minute
/// on a busy machine.
pub fn in_time(is: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    while !is() {
        if start.elapsed() > Duration::from_secs(180) {
            return false;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    true
}

impl<'a> Canary<'a> {
    /// Starts it on a node. Its peers are all other nodes, by both of their addresses.
    pub fn start(net: &'a Net, node: usize, flags: &[&str]) -> Canary<'a> {
        let peers = tempfile::NamedTempFile::new().unwrap();
        let others = (0..net.nodes()).filter(|other| *other != node);
        let lines =
            others.flat_map(|other| net.addresses(other).map(move |address| format!("{address} node-{other}\n")));
        std::fs::write(peers.path(), lines.collect::<String>()).unwrap();
        let file = format!("--peers-file={}", peers.path().display());
        let canary = Canary::looking(net, node, &[&[&*file], flags].concat());
        Canary { peers: Some(peers), ..canary }
    }

    /// Starts it on a node. Its flags name the peers.
    pub fn looking(net: &'a Net, node: usize, flags: &[&str]) -> Canary<'a> {
        let process = net
            .command(node, env!("CARGO_BIN_EXE_kube_canary"))
            .arg(format!("--node=node-{node}"))
            .args(["--series=all", "--label-peer-ip"])
            .args(flags)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let canary = Canary { net, node, peers: None, _process: Running(process) };
        until(|| canary.page().text.contains("kube_canary_build_info"), "the canary serves its page");
        canary
    }

    /// The metrics page.
    pub fn page(&self) -> Page {
        Page { text: self.net.get(self.node, "127.0.0.1:9427", "/metrics") }
    }

    /// Removes a peer from the peers file, waits until its last probe is decided, and returns its metrics, which stay
    /// for the grace period.
    pub fn stop_probing(&self, peer: IpAddr) -> Page {
        let peers = self.peers.as_ref().expect("peers come from a file");
        std::fs::write(peers.path(), "10.77.0.250 nobody\n").unwrap();
        let page = || self.page().of(peer);
        let mut sent = page().sum("probes_sent_total", &[]);
        let quiet = |sent: &mut f64| {
            std::thread::sleep(Duration::from_millis(700));
            let now = page();
            let before = std::mem::replace(sent, now.sum("probes_sent_total", &[]));
            before == *sent && now.sum("in_flight", &[]) == 0.0
        };
        for _ in 0..20 {
            if quiet(&mut sent) {
                return page();
            }
        }
        panic!("{peer} is still probed");
    }
}

impl Page {
    /// Only the lines of one peer's address.
    pub fn of(&self, peer: IpAddr) -> Page {
        self.with("peer_ip", &peer.to_string())
    }

    /// Only the lines with this label.
    pub fn with(&self, label: &str, value: &str) -> Page {
        let label = format!("{label}=\"{value}\"");
        Page { text: self.text.lines().filter(|line| line.contains(&label)).map(|line| format!("{line}\n")).collect() }
    }

    /// The sum of a metric's samples that have these labels.
    pub fn sum(&self, metric: &str, labels: &[(&str, &str)]) -> f64 {
        let start = format!("kube_canary_{metric}{{");
        let lines = self.text.lines().filter(|line| line.starts_with(&start));
        let has = |line: &&str| labels.iter().all(|(name, value)| line.contains(&format!("{name}=\"{value}\"")));
        lines.filter(has).filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }
}
