//! Canaries in separate network namespaces, by IPv4 and IPv6. Their wire loses, delays, duplicates and reorders packets, and
//! is cut and mended. Other tests run real servers: Prometheus, dnsmasq, Kubernetes' API server. Needs root, `ip`, `nft` and
//! what each server needs. A test that cannot run prints a message and is skipped.

#![allow(clippy::disallowed_methods)]

mod apiserver;
mod canary;
mod dns;
mod net;
mod prometheus;
mod relay;

use std::time::Duration;

use canary::Canary;
use net::Net;
use relay::{Relay, Treatment};

/// Prints the name of a test that cannot run here, and the reason.
#[macro_export]
macro_rules! need {
    ($($tool:literal),*) => {
        // SAFETY: it only returns a number.
        if unsafe { libc::geteuid() } != 0 {
            return allocanary_testing::skipped::skipped("needs root");
        }
        $(if !$crate::net::has($tool) {
            return allocanary_testing::skipped::skipped(concat!("needs ", $tool));
        })*
    };
}

/// Six standard errors around a binomial count. A correct canary is outside of it once in a thousand million runs.
fn binomial(trials: f64, share: f64) -> std::ops::RangeInclusive<f64> {
    let spread = 6.0 * (trials * share * (1.0 - share)).sqrt() + 1.0;
    trials * share - spread..=trials * share + spread
}

#[test]
fn the_loss_on_the_wire_is_the_loss_that_is_measured() {
    need!("ip", "nft");
    let net = Net::new(3);
    net.lose_one_of_ten(2);
    // If a canary gets no processor for as long as the time-out, it counts losses that did not happen on the wire.
    let flags = ["--interval=50ms", "--timeout=400ms", "--protocol=icmp"];
    let canaries: Vec<Canary> = (0..3).map(|node| Canary::start(&net, node, &flags)).collect();
    let sent = |canary: &Canary| canary.page().of(net.address(2)).sum("probes_sent_total", &[]);
    canary::until(|| canaries[..2].iter().map(sent).sum::<f64>() > 1500.0, "enough probes were sent");
    // No canary probes node 2 any more. So the probes in flight are decided and its books are complete.
    let asked: Vec<_> = canaries[..2].iter().map(|canary| canary.stop_probing(net.address(2))).collect();
    let dropped = net.counted(2) as f64;
    let lost: f64 = asked.iter().map(|page| page.sum("lost_total", &[("reason", "timeout")])).sum();
    let sent: f64 = asked.iter().map(|page| page.sum("probes_sent_total", &[])).sum();
    assert!(sent > 1500.0, "{sent} probes were sent");
    assert_eq!(lost, dropped, "lost by the canaries' books, and dropped by the wire's");
    assert!(binomial(sent, 0.1).contains(&lost), "{lost} of {sent} lost, one of ten was to be");
    for page in &asked {
        let decided = page.sum("replies_total", &[]) + page.sum("lost_total", &[]);
        assert_eq!(page.sum("probes_sent_total", &[]), decided + page.sum("in_flight", &[]));
    }
    // Between nodes 0 and 1 nothing is lost.
    let between = canaries[0].page().of(net.address(1));
    assert_eq!((between.sum("lost_total", &[]), between.sum("replies_total", &[]) > 500.0), (0.0, true));
}

#[test]
fn what_is_late_or_doubled_is_told_apart() {
    need!("ip");
    let net = Net::new(0);
    let relay = Relay::new(&net);
    let flags = ["--interval=400ms", "--timeout=3200ms", "--protocol=icmp"];
    let (one, _other) = (Canary::start(&net, 0, &flags), Canary::start(&net, 1, &flags));
    // A delay of ten milliseconds each way. Of the answers to node 0 every tenth is doubled. Every fifteenth is 600 ms
    // late (after the next one). Every twentieth is 4.8 s late (after its deadline, and before it is forgotten). Every
    // thirtieth is lost.
    let run = relay.treat(Treatment { delay: Duration::from_millis(10), twice: 10, swap: 15, late: 20, lose: 30 });
    std::thread::sleep(Duration::from_secs(50));
    let did = run.stop();
    std::thread::sleep(Duration::from_secs(7));
    let page = one.page().of(net.address(1));
    let found = |name| page.sum(name, &[]) as u64;
    assert!(did.answers > 90, "{did:?}");
    assert_eq!(found("duplicates_total"), did.twice, "{did:?}");
    assert_eq!(found("late_total"), did.late, "{did:?}");
    assert_eq!(found("lost_total"), did.late + did.lost, "{did:?}");
    assert!(did.swapped > 0, "answers that are overtaken are replies as others: {did:?}");
    let mean = page.sum("rtt_seconds_sum", &[]) / page.sum("rtt_seconds_count", &[]);
    assert!((0.02..0.2).contains(&mean), "20 ms of delay, and of every fifteenth 600, found a mean of {mean} s");
}

#[test]
fn a_link_that_is_cut_shows_and_one_that_is_mended_too() {
    need!("ip");
    let net = Net::new(3);
    let flags = ["--interval=100ms", "--timeout=200ms", "--protocol=icmp,udp,tcp,http"];
    let canaries: Vec<Canary> = (0..3).map(|node| Canary::start(&net, node, &flags)).collect();
    // Four protocols by two address families.
    let up = |node: usize| canaries[0].page().sum("peer_up", &[("peer_node", &format!("node-{node}"))]);
    canary::until(|| up(1) == 8.0 && up(2) == 8.0, "all protocols reach all peers");
    net.link(2, "down");
    canary::until(|| up(2) == 0.0, "node 2 is seen to be down");
    canary::until(|| up(1) == 8.0, "node 1 is up all the while");
    net.link(2, "up");
    canary::until(|| up(2) == 8.0, "node 2 is seen to be back");
}
