//! Peers from a real dnsmasq that plays the name server of a headless service. In: canaries on a net that ask it. Out:
//! which peers they probe when records come, change and are unavailable.

use std::os::unix::fs::PermissionsExt;

use crate::canary::{Canary, until};
use crate::need;
use crate::net::{Net, Running, SERVER};

const NAME: &str = "canaries.test";

/// dnsmasq in the bridge's namespace.
struct Server<'a> {
    net: &'a Net,
    hosts: tempfile::NamedTempFile,
    process: Option<Running>,
}

impl Server<'_> {
    fn new(net: &Net) -> Server<'_> {
        let hosts = tempfile::NamedTempFile::new().unwrap();
        // dnsmasq drops its rights before it reads the file, so every user may read it.
        std::fs::set_permissions(hosts.path(), PermissionsExt::from_mode(0o644)).unwrap();
        Server { net, hosts, process: None }
    }

    fn start(&mut self) {
        // Not `--no-daemon`: with it dnsmasq serves one TCP connection at a time, for as long as the client keeps it.
        let line = format!(
            "dnsmasq --keep-in-foreground --pid-file= --no-resolv --no-hosts --bind-interfaces --listen-address={SERVER} --local=/test/ \
             --local-ttl=1 --conf-file=/dev/null --addn-hosts={}",
            self.hosts.path().display()
        );
        self.process = Some(self.net.spawn("b", &line));
    }

    /// Changes the addresses, as the endpoints of a service change.
    fn names(&self, addresses: impl IntoIterator<Item = std::net::IpAddr>) {
        let lines = addresses.into_iter().map(|address| format!("{address} {NAME}\n"));
        std::fs::write(self.hosts.path(), lines.collect::<String>()).unwrap();
        if let Some(process) = &self.process {
            // SAFETY: a signal to a child that was not waited for yet. `ip` has become dnsmasq.
            unsafe { libc::kill(process.0.id() as i32, libc::SIGHUP) };
        }
    }
}

#[test]
fn peers_follow_a_real_dns_of_either_family_through_its_outages() {
    need!("ip", "nft", "dnsmasq");
    let net = Net::new(3);
    net.resolve_by_server();
    net.nft(
        "b",
        "table inet asked {
            chain input {
                type filter hook input priority 0;
                tcp dport 53 tcp flags syn counter
            }
        }",
    );
    let mut server = Server::new(&net);
    let all = || (0..3).flat_map(|node| net.addresses(node));
    server.names(all());
    server.start();
    let flags = ["--interval=200ms", "--grace=1s", "--protocol=icmp", "--peers-dns=canaries.test."];
    let canaries: Vec<Canary> = (0..3).map(|node| Canary::looking(&net, node, &flags)).collect();
    let canary = &canaries[0];
    let known = || canary.page().sum("peers", &[("state", "known")]);
    let up = |node: &str| canary.page().sum("peer_up", &[("peer_node", node)]);

    // The canary's own addresses are not peers. The others themselves report their names.
    until(|| known() == 4.0, "two others by two families");
    until(|| up("node-1") == 2.0 && up("node-2") == 2.0, "both are up under their names");
    assert_eq!(net.counted("b"), 0, "so few fit a datagram");
    server.names(all().filter(|address| *address != net.address(2) && *address != net.address6(2)));
    until(|| known() == 2.0 && canary.page().of(net.address6(2)).text.is_empty(), "node-2 is gone");

    // The answer does not fit into a datagram. It says so, and the canary asks again by TCP.
    let strangers = || (0..100).map(|last| std::net::IpAddr::from([10, 77, 1, last]));
    server.names(all().chain(strangers()));
    until(|| known() == 104.0, "a hundred more");
    assert!(net.counted("b") > 0, "they did not come by TCP");
    server.names(all());
    until(|| known() == 4.0, "the hundred are gone");

    // The peers stay if the service has no endpoints, and if the server is gone.
    let failures = || canary.page().sum("discovery_refreshes_total", &[("result", "failure")]);
    let replies = || canary.page().of(net.address6(1)).sum("replies_total", &[]);
    server.names([]);
    let before = failures();
    until(|| failures() > before, "an empty answer is a failure");
    server.process = None;
    let (before, answered) = (failures(), replies());
    until(|| failures() > before, "a server that is gone is a failure");
    until(|| replies() > answered, "probing goes on");
    assert_eq!(known(), 4.0);
    server.names(all().chain([[10, 77, 1, 1].into()]));
    server.start();
    until(|| known() == 5.0, "the server is back, and names one more");
}

/// A peer by its host's name, and targets outside of the mesh: which of them answer, which do not, and which step
/// fails.
#[test]
fn hosts_by_name_are_peers_and_targets_are_told_apart_by_the_step_that_fails() {
    need!("ip", "dnsmasq");
    let net = Net::new(3);
    net.resolve_by_server();
    let mut server = Server::new(&net);
    server.names([net.address(1)]);
    server.start();
    let _other = Canary::looking(&net, 1, &["--peer=10.77.0.3", "--protocol=icmp"]);
    let flags = [
        "--interval=200ms",
        "--protocol=icmp",
        "--peer=canaries.test.=called",
        "--target-interval=500ms",
        "--target=dns:canaries.test.",
        "--target=dns:nobody.test.",
        "--target=tcp:canaries.test.:9427",
        "--target=tcp:canaries.test.:1",
        "--target=http://canaries.test.:9427/healthz",
        "--target=https://canaries.test.:9427/healthz",
    ];
    let canary = Canary::looking(&net, 0, &flags);
    until(|| canary.page().sum("peer_up", &[("peer_node", "called")]) == 1.0, "the host is a peer");
    let checks = |target: &str, outcome: &str| {
        canary.page().sum("target_checks_total", &[("target", target), ("outcome", outcome)])
    };
    for (target, outcome) in [
        ("dns:canaries.test.", "ok"),
        ("dns:nobody.test.", "dns"),
        ("tcp:canaries.test.:9427", "ok"),
        ("tcp:canaries.test.:1", "connect"),
        ("http://canaries.test.:9427/healthz", "ok"),
        // The canary has no certificate, and answers the first message of TLS by an error in plain HTTP.
        ("https://canaries.test.:9427/healthz", "tls"),
    ] {
        until(|| checks(target, outcome) >= 2.0, &format!("{target} ends with {outcome}"));
        let wanted = f64::from(u8::from(outcome == "ok"));
        until(|| canary.page().sum("target_up", &[("target", target)]) == wanted, &format!("{target}: up is {wanted}"));
    }
    // Without the name server every name fails at that step, and the peer stays.
    server.process = None;
    let failed = checks("tcp:canaries.test.:9427", "dns") + checks("tcp:canaries.test.:9427", "timeout");
    until(
        || checks("tcp:canaries.test.:9427", "dns") + checks("tcp:canaries.test.:9427", "timeout") > failed,
        "names are not resolved",
    );
    assert_eq!(canary.page().sum("peers", &[("state", "known")]), 1.0);
}
