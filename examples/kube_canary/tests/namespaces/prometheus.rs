//! A real Prometheus with the rules of `deploy/monitoring`. In: canaries on a net, one behind a lossy wire. Out: the
//! answers to its queries.

use std::time::Duration;

use serde_json::Value;

use crate::canary::{Canary, until};
use crate::need;
use crate::net::{Net, Running};

const MONITORING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/monitoring");

/// A Prometheus in the bridge's namespace.
pub struct Prometheus<'a> {
    net: &'a Net,
    _folder: tempfile::TempDir,
    _process: Running,
}

impl Prometheus<'_> {
    /// Starts it with the rules, and scrapes all nodes each second. `minute` replaces the one minute for which rules look
    /// back.
    fn start<'a>(net: &'a Net, minute: &str) -> Prometheus<'a> {
        let folder = tempfile::tempdir().unwrap();
        let rules = std::fs::read_to_string(format!("{MONITORING}/rules.yaml")).unwrap();
        assert!(rules.contains("[1m]"));
        let rules = rules.replace("[1m]", &format!("[{minute}]"));
        std::fs::write(folder.path().join("rules.yaml"), rules).unwrap();
        // The PodMonitor would set the label `node`.
        let target =
            |node: usize| format!("{{targets: ['{}:9427'], labels: {{node: node-{node}}}}}", net.address(node));
        let targets: Vec<String> = (0..net.nodes()).map(target).collect();
        let config = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: ['{}/rules.yaml']\n\
             scrape_configs: [{{job_name: monitoring/kube-canary, static_configs: [{}]}}]\n",
            folder.path().display(),
            targets.join(", ")
        );
        Prometheus::with(net, folder, &config)
    }

    /// Starts it with this configuration. The folder, which may have files for it, goes with it.
    pub fn with<'a>(net: &'a Net, folder: tempfile::TempDir, config: &str) -> Prometheus<'a> {
        std::fs::write(folder.path().join("prometheus.yml"), config).unwrap();
        let path = folder.path().display();
        let process = net.spawn(
            "b",
            &format!(
                "prometheus --config.file={path}/prometheus.yml --storage.tsdb.path={path}/data --enable-feature=native-histograms \
                 --web.listen-address=127.0.0.1:9999"
            ),
        );
        Prometheus { net, _folder: folder, _process: process }
    }

    /// What its API answers.
    pub fn get(&self, path: &str) -> Value {
        serde_json::from_str(&self.net.get("b", "127.0.0.1:9999", path)).unwrap_or_default()
    }

    /// The result of a query; `None` if Prometheus refuses it.
    fn ask(&self, text: &str) -> Option<Vec<Value>> {
        let escaped: String = text.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let answer = self.get(&format!("/api/v1/query?query={escaped}"));
        (answer["status"] == "success").then(|| answer["data"]["result"].as_array().cloned().unwrap_or_default())
    }

    /// The value of each series that is a number; `None` if Prometheus refuses the query.
    fn query(&self, text: &str) -> Option<Vec<f64>> {
        let value = |series: &Value| series["value"][1].as_str()?.parse().ok();
        self.ask(text).map(|series| series.iter().filter_map(value).collect())
    }

    /// The number of series that a query returns, of numbers and of histograms.
    fn series(&self, text: &str) -> usize {
        self.ask(text).map_or(0, |series| series.len())
    }

    /// The alerts that are pending or firing for a fault, each with its summary, sorted by their texts.
    fn told(&self, fault: &str) -> Vec<String> {
        let answer = self.get("/api/v1/alerts");
        let alerts = answer["data"]["alerts"].as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or("?").to_string();
        let of_fault = alerts.iter().filter(|alert| alert["labels"]["fault"] == fault);
        let mut told: Vec<String> = of_fault
            .map(|alert| text(&alert["labels"]["alertname"]) + ": " + &text(&alert["annotations"]["summary"]))
            .collect();
        told.sort();
        told
    }

    /// The only value that a query returns.
    pub fn one(&self, text: &str) -> Option<f64> {
        self.query(text).filter(|values| values.len() == 1).map(|values| values[0])
    }
}

#[test]
fn a_real_prometheus_scrapes_them_and_answers_the_queries_of_rules_and_dashboard() {
    need!("ip", "nft", "prometheus", "promtool");
    let net = Net::new(3);
    net.lose_one_of_ten(2);
    // Node 0 has the metrics of HTTP probes and of name servers that the dashboard shows. No name server runs, but a failed
    // query takes time as well.
    net.resolve_by_server();
    let flags = ["--interval=50ms", "--timeout=400ms"];
    let own = |node| {
        if node == 0 { &["--protocol=icmp,http", "--peers-dns=canaries.test."][..] } else { &["--protocol=icmp"] }
    };
    let canaries: Vec<Canary> = (0..3).map(|node| Canary::start(&net, node, &[&flags, own(node)].concat())).collect();
    let lint = net.with_input(0, "promtool check metrics", &canaries[0].page().text);
    assert!(lint.is_empty(), "promtool: {lint}");
    let prometheus = Prometheus::start(&net, "1m");
    // Each of three sees two others by both families, and one of them also by HTTP.
    until(|| prometheus.one("count(kube_canary_peer_up == 1)") == Some(16.0), "Prometheus sees all links up");
    assert_eq!(prometheus.one("count(kube_canary_build_info)"), Some(3.0));
    std::thread::sleep(Duration::from_secs(20));

    // 40 probes a second for each pair, for some 20 seconds. One of ten is lost, within five standard errors.
    let loss = |from: usize, to: usize| {
        let labels = format!("{{node=\"node-{from}\",peer_node=\"node-{to}\",proto=\"icmp\"}}");
        prometheus.one(&format!("kube_canary:loss:ratio_rate5m{labels}")).unwrap_or(-1.0)
    };
    assert!((0.05..0.15).contains(&loss(0, 2)), "{}", loss(0, 2));
    assert!((0.05..0.15).contains(&loss(1, 2)), "{}", loss(1, 2));
    // A canary that gets no processor for as long as the time-out loses a probe.
    let others = [loss(0, 1), loss(1, 0), loss(2, 0)];
    assert!(others.iter().all(|loss| (0.0..0.005).contains(loss)), "{others:?}");
    let slowest = prometheus.one("max(kube_canary:rtt_seconds:p99_5m{proto=\"icmp\"})").unwrap_or(-1.0);
    assert!(slowest > 0.0 && slowest < 0.4, "{slowest}");
    let degraded = ["KubeCanaryPeerDegraded: Probes to node-2 are lost, whoever sends them"];
    until(|| prometheus.told("loss") == degraded, degraded[0]);
    assert_eq!(prometheus.told("down"), [""; 0]);
    // Some panels of the dashboard need a link that is down.
    net.link(2, "down");
    let down = "count(max by (node, peer_node) (kube_canary_peer_up) == 0) > bool 0"; // down by every protocol
    until(|| prometheus.one(down) == Some(1.0), "node 2 is seen to be down");

    // All rules could be evaluated, and there is data for every query of the dashboard.
    let rules = prometheus.get("/api/v1/rules");
    let groups = rules["data"]["groups"].as_array().unwrap();
    let rules: Vec<&Value> = groups.iter().flat_map(|group| group["rules"].as_array().unwrap()).collect();
    assert!(rules.len() >= 8, "{rules:?}");
    for rule in rules {
        assert_eq!(rule["health"], "ok", "{rule}");
    }
    let asked = dashboard();
    assert!(asked.len() >= 10, "{asked:?}");
    for text in asked {
        let answer = prometheus.query(&text).unwrap_or_else(|| panic!("refused: {text}"));
        assert!(!answer.is_empty(), "nothing answers {text}");
    }
}

/// Drops the probes from these addresses to a node, by both families. Answers to the node's own probes pass.
fn deaf(net: &Net, node: usize, to: &[usize]) {
    let list = |of: fn(&Net, usize) -> String| to.iter().map(|other| of(net, *other)).collect::<Vec<_>>().join(", ");
    let (four, six) =
        (list(|net, node| net.address(node).to_string()), list(|net, node| net.address6(node).to_string()));
    net.nft(
        node,
        &format!(
            "table inet deaf {{
                chain input {{
                    type filter hook input priority 0;
                    ip saddr {{ {four} }} icmp type echo-request drop
                    ip saddr {{ {four} }} udp dport 8917 drop
                    ip6 saddr {{ {six} }} icmpv6 type echo-request drop
                    ip6 saddr {{ {six} }} udp dport 8917 drop
                }}
            }}"
        ),
    );
}

#[test]
fn a_real_prometheus_names_the_source_the_node_and_the_pair() {
    need!("ip", "nft", "prometheus");
    let net = Net::new(5);
    let flags = ["--interval=100ms", "--timeout=800ms", "--protocol=icmp,udp"];
    let _canaries: Vec<Canary> = (0..5).map(|node| Canary::start(&net, node, &flags)).collect();
    let prometheus = Prometheus::start(&net, "5s");
    // Each of five sees four others, by two protocols and two families.
    until(|| prometheus.one("count(kube_canary_peer_up == 1)") == Some(80.0), "Prometheus sees all links up");
    until(|| prometheus.told("down").is_empty(), "no alert");
    let stage = |cut: &[(usize, &[usize])], wanted: &str| {
        cut.iter().for_each(|(node, from)| deaf(&net, *node, from));
        until(|| prometheus.told("down") == [wanted], wanted);
        cut.iter().for_each(|(node, _)| net.nft(node, "delete table inet deaf"));
        until(|| prometheus.told("down").is_empty(), "it is over");
    };
    // No node hears node 0, and node 0 hears all of them.
    let source = [(1, &[0][..]), (2, &[0]), (3, &[0]), (4, &[0])];
    stage(&source, "KubeCanaryReachesNobody: node-0 reaches nobody");
    stage(&[(3, &[0, 1, 2, 4])], "KubeCanaryNobodyReaches: Nobody reaches node-3");
    let first = |node: usize| prometheus.one(&format!("kube_canary_node_order{{node=\"node-{node}\"}}")).unwrap();
    let (one, other) = if first(0) < first(1) { (0, 1) } else { (1, 0) };
    let both = format!("KubeCanaryPairDown: node-{one} and node-{other} do not reach each other");
    stage(&[(0, &[1]), (1, &[0])], &both);
    stage(&[(1, &[0])], "KubeCanaryPairDown: node-0 does not reach node-1");
}

/// Prometheus scrapes the canary by protobuf messages.
#[test]
fn a_real_prometheus_takes_native_histograms_and_has_their_quantiles() {
    need!("ip", "prometheus");
    let net = Net::new(2);
    let flags = ["--interval=20ms", "--timeout=100ms", "--protocol=icmp", "--latency=native"];
    let canaries: Vec<Canary> = (0..2).map(|node| Canary::start(&net, node, &flags)).collect();
    let prometheus = Prometheus::start(&net, "1m");
    // Each of two sees the other by two families.
    until(|| prometheus.one("count(kube_canary_peer_up == 1)") == Some(4.0), "Prometheus sees all links up");
    let counted = "sum(histogram_count(kube_canary_rtt_seconds))";
    until(|| prometheus.one(counted).is_some_and(|count| count > 1000.0), "native histograms have a thousand values");
    let replies = prometheus.one("sum(kube_canary_replies_total)").unwrap();
    let count = prometheus.one(counted).unwrap();
    assert!((count - replies).abs() < 3000.0, "{count} in histograms, {replies} replies a moment before");
    assert_eq!(prometheus.query("kube_canary_rtt_seconds_bucket"), Some(vec![]), "it took the native ones");

    // A rate needs at least two scrapes.
    let each = "histogram_quantile(0.99, rate(kube_canary_rtt_seconds[1m]))";
    until(|| prometheus.query(each).is_some_and(|values| values.len() == 4), "each series has a 99th percentile");
    let each = prometheus.query(each).unwrap();
    assert!(each.iter().all(|p99| *p99 > 1e-6 && *p99 < 0.1), "{each:?}");
    // The same replies are in the page's classic buckets, and counters only rise. So the histogram that Prometheus has taken lies between a
    // page that was read before and one that was read after, bucket by bucket. A rate would not: it leaves out the first replies.
    let buckets = || -> (Vec<(f64, f64)>, f64) {
        let page = canaries[0].page();
        let bounds = kube_canary::histogram::Bounds::default();
        let bounds = bounds.nanos().iter().map(|nanos| *nanos as f64 / 1e9);
        let below = bounds.map(|bound| (bound, page.sum("rtt_seconds_bucket", &[("le", &bound.to_string())])));
        (below.collect(), page.sum("rtt_seconds_count", &[]))
    };
    let (before, count_before) = buckets();
    let own = "sum(kube_canary_rtt_seconds{node=\"node-0\"})";
    let counted = format!("histogram_count({own})");
    until(|| prometheus.one(&counted).is_some_and(|count| count >= count_before), "Prometheus has what the page had");
    let median = prometheus.one(&format!("histogram_quantile(0.5, {own})")).unwrap();
    let (after, count_after) = buckets();
    // More than half were below `to` in any case, and less than half below `from`. A native bucket ends at 1.1 times its begin.
    let to = before.iter().find(|(_, below)| *below > 0.5 * count_after).map_or(f64::INFINITY, |(bound, _)| *bound);
    let from = after.iter().rfind(|(_, below)| *below < 0.5 * count_before).map_or(0.0, |(bound, _)| *bound);
    assert!(to.is_finite(), "more replies came between the two pages than before: {before:?}, {after:?}");
    assert!(
        median > from / 1.1 && median < to * 1.1,
        "a median of {median}, wanted {from} to {to}: {before:?}, {after:?}"
    );

    // The rule that alerts on slow peers has a value for each peer, and the dashboard's panels of round trips have
    // data.
    let rule = "kube_canary:rtt_seconds:p99_5m";
    until(|| prometheus.query(rule).is_some_and(|values| values.len() == 2), "the rule knows both pairs");
    let known = prometheus.query(rule).unwrap();
    assert!(known.iter().all(|p99| *p99 > 1e-6 && *p99 < 0.1), "{known:?}");
    let round_trips: Vec<String> =
        dashboard().into_iter().filter(|text| text.contains("canary_rtt_seconds_bucket")).collect();
    assert!(round_trips.len() >= 2, "{round_trips:?}");
    for text in round_trips {
        assert!(prometheus.series(&text) > 0, "nothing answers {text}");
    }
}

/// The queries of the dashboard, for all peers.
fn dashboard() -> Vec<String> {
    let text = std::fs::read_to_string(format!("{MONITORING}/dashboard.json")).unwrap();
    let mut asked = Vec::new();
    expressions(&serde_json::from_str(&text).unwrap(), &mut asked);
    let of_all =
        |text: String| text.replace("$__rate_interval", "10s").replace("$peer_node", ".*").replace("$proto", ".*");
    asked.into_iter().map(of_all).collect()
}

/// All values of the key `expr`.
fn expressions(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            into.extend(fields.get("expr").and_then(Value::as_str).map(str::to_string));
            fields.values().for_each(|field| expressions(field, into));
        }
        Value::Array(items) => items.iter().for_each(|item| expressions(item, into)),
        _ => {}
    }
}
