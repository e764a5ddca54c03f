//! A real canary in a namespace, and its metrics. In: a node and flags. Out: pages that can be added up.

use std::net::IpAddr;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::net::{Net, Running};

/// A canary that ends with its test.
pub struct Canary<'a> {
    net: &'a Net,
    node: usize,
    peers: tempfile::NamedTempFile,
    _process: Running,
}

/// A metrics page.
pub struct Page {
    pub text: String,
}

/// Waits until something is so.
pub fn until(is: impl Fn() -> bool, what: &str) {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < Duration::from_secs(60), "waited a minute until {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

impl<'a> Canary<'a> {
    /// On a node; its peers are all others.
    pub fn start(net: &'a Net, node: usize, flags: &[&str]) -> Canary<'a> {
        let peers = tempfile::NamedTempFile::new().unwrap();
        let others = (0..net.nodes()).filter(|other| *other != node);
        let lines: String = others.map(|other| format!("{} node-{other}\n", net.address(other))).collect();
        std::fs::write(peers.path(), lines).unwrap();
        let process = Command::new("ip")
            .args(["netns", "exec", &net.name(node), env!("CARGO_BIN_EXE_kube_canary")])
            .args([&format!("--node=node-{node}"), "--listen=0.0.0.0:9427"])
            .arg(format!("--peers-file={}", peers.path().display()))
            .args(flags)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let canary = Canary { net, node, peers, _process: Running(process) };
        until(|| canary.page().text.contains("kube_canary_build_info"), "the canary serves its page");
        canary
    }

    /// As [`Canary::start`], for two nodes that a relay joins.
    pub fn start_pair(net: &'a Net, node: usize, flags: &[&str]) -> Canary<'a> {
        Canary::start(net, node, flags)
    }

    /// The metrics page.
    pub fn page(&self) -> Page {
        Page { text: self.net.get(self.node, "127.0.0.1:9427", "/metrics") }
    }

    /// Takes a peer out of the peers file, waits until the last probe is decided, and gives its metrics, which stay for
    /// the grace period.
    pub fn stop_probing(&self, peer: IpAddr) -> Page {
        std::fs::write(self.peers.path(), "10.77.0.250 nobody\n").unwrap();
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
    /// Only the lines of one peer.
    pub fn of(&self, peer: IpAddr) -> Page {
        let label = format!("peer_ip=\"{peer}\"");
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
