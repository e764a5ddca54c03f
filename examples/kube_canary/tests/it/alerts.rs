//! Tests the alerts with promtool and generated series. In: meshes of every size, with a fault in each. Out: whether exactly
//! the right alert fires. Tests that do not depend on the size are in `deploy/monitoring/rules.test.yaml`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

const RULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/monitoring/rules.yaml");
/// The number of scrapes, one minute apart. The alerts are read at the last one.
const MINUTES: u32 = 25;

struct Cluster {
    nodes: usize,
    series: Vec<Value>,
}

/// What an alert must say.
struct Alert {
    name: &'static str,
    labels: Value,
    annotations: [String; 2],
}

fn node(number: usize) -> String {
    format!("n{number}")
}

impl Cluster {
    /// Each node is scraped, and probes the nodes that `probes` returns, by ICMP and UDP.
    fn new(nodes: usize) -> Cluster {
        let mut cluster = Cluster { nodes, series: vec![] };
        for this in 0..nodes {
            let (node, constant) = (node(this), format!("1x{MINUTES}"));
            cluster.add(&format!("up{{job=\"monitoring/kube-canary\",node=\"{node}\"}}"), &constant);
            // Sorted by number: of two nodes, the one with the smaller number is first.
            cluster.add(&format!("kube_canary_node_order{{node=\"{node}\"}}"), &format!("{this}x{MINUTES}"));
            cluster.add(&format!("kube_canary_build_info{{node=\"{node}\"}}"), &constant);
        }
        cluster
    }

    fn add(&mut self, series: &str, values: &str) {
        self.series.push(json!({"series": series, "values": values}));
    }

    /// Adds the pairs for which `probes` is true. Pairs for which `cut` is true have no answer from the fourth minute
    /// on.
    fn reach(
        mut self,
        protocols: &[&str],
        probes: impl Fn(usize, usize) -> bool,
        cut: impl Fn(usize, usize) -> bool,
    ) -> Cluster {
        for from in 0..self.nodes {
            for to in (0..self.nodes).filter(|to| *to != from && probes(from, *to)) {
                for proto in protocols {
                    let values = if cut(from, to) { format!("1x3 0x{MINUTES}") } else { format!("1x{MINUTES}") };
                    let labels = format!(
                        "node=\"{}\",peer_node=\"{}\",peer_ip=\"10.0.0.{to}\",proto=\"{proto}\"",
                        node(from),
                        node(to)
                    );
                    self.add(&format!("kube_canary_peer_up{{{labels}}}"), &values);
                }
            }
        }
        self
    }

    /// Adds all pairs with 60 probes a minute, of which `lost` are lost.
    fn lose(mut self, lost: impl Fn(usize, usize) -> u32) -> Cluster {
        for from in 0..self.nodes {
            for to in (0..self.nodes).filter(|to| *to != from) {
                let labels = format!("node=\"{}\",peer_node=\"{}\",proto=\"icmp\"", node(from), node(to));
                let lost = lost(from, to);
                self.add(&format!("kube_canary_peer_up{{{labels}}}"), &format!("1x{MINUTES}"));
                self.add(
                    &format!("kube_canary_lost_total{{{labels},reason=\"timeout\"}}"),
                    &format!("0+{lost}x{MINUTES}"),
                );
                self.add(&format!("kube_canary_replies_total{{{labels}}}"), &format!("0+{}x{MINUTES}", 60 - lost));
            }
        }
        self
    }

    /// Checks that exactly these alerts fire at the end.
    fn tells(self, what: &str, wanted: &[Alert]) {
        let text = fs::read_to_string(RULES).unwrap();
        let names: BTreeSet<&str> = text.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
        assert!(names.len() > 10 && wanted.iter().all(|alert| names.contains(alert.name)), "{names:?}");
        let expected = |name: &str| {
            let of_name = wanted.iter().filter(|alert| alert.name == name);
            let told = of_name.map(|Alert { labels, annotations: [summary, description], .. }| {
                let runbook = format!("runbooks.md#{}", name.to_lowercase());
                json!({"exp_labels": labels, "exp_annotations": {"summary": summary, "description": description, "runbook": runbook}})
            });
            told.collect::<Vec<_>>()
        };
        let tests: Vec<Value> = names
            .iter()
            .map(|name| json!({"eval_time": format!("{MINUTES}m"), "alertname": name, "exp_alerts": expected(name)}))
            .collect();
        let file = json!({
            "rule_files": [RULES],
            "evaluation_interval": "1m",
            "tests": [{"name": what, "interval": "1m", "input_series": self.series, "alert_rule_test": tests}],
        });
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("generated.yaml");
        fs::write(&path, serde_json::to_vec(&file).unwrap()).unwrap();
        let out = match Command::new("promtool").args(["test", "rules"]).arg(&path).output() {
            Ok(out) => out,
            Err(error) => {
                return allocanary_testing::skipped::skipped(format_args!("promtool is not installed ({error})"));
            }
        };
        let said = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{what}, {} nodes: {said}", self.nodes);
    }
}

fn all(_: usize, _: usize) -> bool {
    true
}

/// The expected alert for a node that no other node reaches.
fn unreached(number: usize, by: usize) -> Alert {
    Alert {
        name: "KubeCanaryNobodyReaches",
        labels: json!({"severity": "critical", "fault": "down", "peer_node": node(number)}),
        annotations: [
            format!("Nobody reaches {}", node(number)),
            format!(
                "{by} canaries have no answer from it by any protocol. Its own canary reaches others, or cannot be scraped."
            ),
        ],
    }
}

fn reaches_nobody(number: usize, peers: usize) -> Alert {
    Alert {
        name: "KubeCanaryReachesNobody",
        labels: json!({"severity": "critical", "fault": "down", "node": node(number)}),
        annotations: [
            format!("{} reaches nobody", node(number)),
            format!("{peers} peers do not answer it by any protocol; others reach them, and it."),
        ],
    }
}

fn pair(one: usize, other: usize, summary: &str, ways: &str) -> Alert {
    Alert {
        name: "KubeCanaryPairDown",
        labels: json!({"severity": "critical", "fault": "down", "node_a": node(one), "node_b": node(other)}),
        annotations: [summary.into(), format!("{ways} No probe of any protocol is answered.")],
    }
}

const ONE_WAY: &str = "One way; the other way has answers, or is not probed.";

/// A cluster with faults where `cut` says so. promtool takes 10,000 samples at a time. So of 200 nodes each probes 10, as
/// with the manifests' `--peers-max`, and by one protocol.
fn faulty(nodes: usize, cut: impl Fn(usize, usize) -> bool) -> Cluster {
    let (protocols, few) = if nodes > 50 { (&["icmp"][..], 10) } else { (&["icmp", "udp"][..], nodes) };
    Cluster::new(nodes).reach(protocols, |from, to| (to + nodes - from) % nodes <= few, cut)
}

#[test]
fn a_source_that_reaches_nobody_is_named_and_no_peer_of_it() {
    for nodes in [3, 10, 200] {
        faulty(nodes, |from, _| from == 0).tells(
            "n0's outgoing side is cut",
            &[reaches_nobody(0, (nodes - 1).min(if nodes > 50 { 10 } else { 49 }))],
        );
    }
}

#[test]
fn a_node_that_nobody_reaches_is_named_and_no_prober_of_it() {
    for nodes in [3, 10, 200] {
        let one = nodes.min(6) - 1;
        faulty(nodes, |_, to| to == one).tells(
            "the incoming side of one is cut",
            &[unreached(one, (nodes - 1).min(if nodes > 50 { 10 } else { 49 }))],
        );
    }
}

#[test]
fn a_link_that_is_cut_names_both_of_its_ends_once() {
    for nodes in [2, 3, 10] {
        let both = faulty(nodes, |from, to| from + to == 1);
        both.tells("n0 and n1, both ways", &[pair(0, 1, "n0 and n1 do not reach each other", "Both ways.")]);
        let back = faulty(nodes, |from, to| (from, to) == (1, 0));
        back.tells("n1 to n0", &[pair(0, 1, "n1 does not reach n0", ONE_WAY)]);
    }
    for nodes in [2, 3, 10, 200] {
        let there = faulty(nodes, |from, to| (from, to) == (0, 1));
        there.tells("n0 to n1", &[pair(0, 1, "n0 does not reach n1", ONE_WAY)]);
    }
}

#[test]
fn a_node_that_is_cut_off_both_ways_is_one_alert() {
    let mut told = unreached(5, 9);
    told.annotations[1] =
        "9 canaries have no answer from it by any protocol. Its own canary reaches nobody either.".into();
    faulty(10, |from, to| from == 5 || to == 5).tells("n5 is alone", &[told]);
}

#[test]
fn what_no_single_node_explains_is_one_alert() {
    let pairs = [(0, 1), (0, 2), (1, 2)];
    let pairs = pairs.map(|(a, b)| pair(a, b, &format!("n{a} and n{b} do not reach each other"), "Both ways."));
    faulty(3, all).tells("three nodes, nothing works", &pairs);
    // Five nodes and six others of 40 do not reach each other. No node has lost more than six of 39.
    let side = |node: usize| {
        if node < 5 {
            1
        } else if node < 11 {
            2
        } else {
            0
        }
    };
    let parts = Cluster::new(40).reach(&["icmp"], all, |from, to| side(from) * side(to) == 2);
    let split = Alert {
        name: "KubeCanarySplit",
        labels: json!({"severity": "critical", "fault": "down"}),
        annotations: [
            "60 pairs of nodes do not reach each other: more than single nodes or links explain".into(),
            "Most such peers have: n0 (6), n1 (6), n2 (6), n3 (6), n4 (6).".into(),
        ],
    };
    parts.tells("two groups of many", &[split]);
}

#[test]
fn loss_is_of_a_source_a_peer_or_a_pair() {
    let degraded = |name, labels: Value, summary: &str, description: &str| Alert {
        name,
        labels,
        annotations: [summary.into(), description.into()],
    };
    let labels = |of: Value| {
        let mut labels = json!({"severity": "warning", "fault": "loss"});
        labels.as_object_mut().unwrap().append(&mut of.as_object().unwrap().clone());
        labels
    };
    for nodes in [3, 10] {
        let out = Cluster::new(nodes).lose(|from, _| if from == 0 { 6 } else { 0 });
        let text = "With 100% of its peers; on average: 10% of icmp.";
        let told = degraded(
            "KubeCanarySourceDegraded",
            labels(json!({"node": "n0"})),
            "Probes from n0 are lost, whoever is asked",
            text,
        );
        out.tells("n0 loses what it sends", &[told]);
        let to = Cluster::new(nodes).lose(|_, to| if to == 1 { 6 } else { 0 });
        let told = degraded(
            "KubeCanaryPeerDegraded",
            labels(json!({"peer_node": "n1"})),
            "Probes to n1 are lost, whoever sends them",
            "100% of its probers find so; on average: 10% of icmp.",
        );
        to.tells("n1 loses what it gets", &[told]);
    }
    for nodes in [2, 3, 10] {
        let link = Cluster::new(nodes).lose(|from, to| if from + to == 1 { 6 } else { 0 });
        let told = degraded(
            "KubeCanaryPairDegraded",
            labels(json!({"node_a": "n0", "node_b": "n1"})),
            "Probes from n0 to n1 and back are lost",
            "10% of them by the worst protocol.",
        );
        link.tells("a lossy link", &[told]);
    }
}

#[test]
fn a_canary_that_is_not_there_is_named_and_the_network_is_not_blamed() {
    let missing = |number| Alert {
        name: "KubeCanaryMissing",
        labels: json!({"severity": "warning", "node": node(number)}),
        annotations: [
            format!("The canary on {} cannot be scraped", node(number)),
            format!(
                "Nobody watches the network from there. What others say of {} by UDP, TCP and HTTP is this canary's, not the network's.",
                node(number)
            ),
        ],
    };
    // The kernel answers ICMP for it. All probes by UDP are lost.
    let dead = || {
        let mut cluster = Cluster::new(4);
        cluster.series.retain(|series| {
            !series["series"].as_str().unwrap().starts_with("up{") || !series["series"].as_str().unwrap().contains("n3")
        });
        let mut cluster = cluster.reach(&["icmp"], |from, _| from != 3, |_, _| false);
        cluster = cluster.reach(&["udp"], |from, _| from != 3, |_, to| to == 3);
        for from in 0..3 {
            let labels = format!("node=\"n{from}\",peer_node=\"n3\",proto=\"udp\"");
            cluster.add(&format!("kube_canary_lost_total{{{labels},reason=\"timeout\"}}"), &format!("0+60x{MINUTES}"));
            cluster.add(&format!("kube_canary_replies_total{{{labels}}}"), &format!("0x{MINUTES}"));
        }
        cluster
    };
    let up = "up{job=\"monitoring/kube-canary\",node=\"n3\"}";
    let mut refused = dead();
    refused.add(up, &format!("1x2 0x{MINUTES}"));
    refused.tells("its port is closed", &[missing(3)]);
    let mut gone = dead();
    gone.add(up, "1x2 stale");
    gone.tells("it is no target any more", &[missing(3)]);

    let mut looping = Cluster::new(3).reach(&["icmp", "udp"], all, |_, _| false);
    looping.add("process_start_time_seconds{job=\"monitoring/kube-canary\",node=\"n1\"}", "0x15 900 1080x3 1320x10");
    looping.tells(
        "it starts again and again",
        &[Alert {
            name: "KubeCanaryRestarts",
            labels: json!({"severity": "warning", "node": "n1"}),
            annotations: [
                "The canary on n1 started 3 times anew within 15 minutes".into(),
                "Its previous log and the reason of its last end say why: kubectl describe pod, kubectl logs --previous.".into(),
            ],
        }],
    );
    let nobody =
        Cluster { nodes: 0, series: vec![json!({"series": "up{job=\"other\"}", "values": format!("1x{MINUTES}")})] };
    nobody.tells(
        "no canary at all",
        &[Alert {
            name: "KubeCanaryAllMissing",
            labels: json!({"severity": "critical"}),
            annotations: [
                "No canary is scraped".into(),
                "There are none, or Prometheus does not find or reach them.".into(),
            ],
        }],
    );
}

#[test]
fn every_alert_has_a_runbook_and_every_runbook_an_alert() {
    let folder = Path::new(RULES).parent().unwrap();
    let (rules, runbooks) =
        (fs::read_to_string(RULES).unwrap(), fs::read_to_string(folder.join("runbooks.md")).unwrap());
    let alerts: Vec<&str> = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    let named: Vec<String> = rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix("runbook: runbooks.md#"))
        .map(str::to_string)
        .collect();
    let lower: Vec<String> = alerts.iter().map(|name| name.to_lowercase()).collect();
    assert_eq!(named, lower, "the annotation of each alert is its own");
    let headings: Vec<&str> = runbooks.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    assert_eq!(headings, alerts, "in the order of the rules");
    for part in runbooks.split("\n## ").skip(1) {
        assert!(part.lines().filter(|line| !line.is_empty()).count() >= 3, "says little: {part}");
    }
}
