//! A real Prometheus with the rules of `deploy/monitoring`. In: canaries on a net, one behind a lossy wire. Out: what it
//! answers.

use std::time::Duration;

use serde_json::Value;

use crate::canary::{Canary, until};
use crate::need;
use crate::net::{Net, Running};

const MONITORING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/monitoring");

/// A Prometheus on node 0 that scrapes all nodes each second.
struct Prometheus<'a> {
    net: &'a Net,
    _folder: tempfile::TempDir,
    _process: Running,
}

impl Prometheus<'_> {
    fn start(net: &Net) -> Prometheus<'_> {
        let folder = tempfile::tempdir().unwrap();
        // The label `node` is what the PodMonitor sets.
        let target =
            |node: usize| format!("{{targets: ['{}:9427'], labels: {{node: node-{node}}}}}", net.address(node));
        let targets: Vec<String> = (0..net.nodes()).map(target).collect();
        let config = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: ['{MONITORING}/rules.yaml']\n\
             scrape_configs: [{{job_name: monitoring/kube-canary, static_configs: [{}]}}]\n",
            targets.join(", ")
        );
        std::fs::write(folder.path().join("prometheus.yml"), config).unwrap();
        let path = folder.path().display();
        let process = net.spawn(
            0,
            &format!(
                "prometheus --config.file={path}/prometheus.yml --storage.tsdb.path={path}/data \
                 --web.listen-address=127.0.0.1:9999"
            ),
        );
        Prometheus { net, _folder: folder, _process: process }
    }

    fn get(&self, path: &str) -> Value {
        serde_json::from_str(&self.net.get(0, "127.0.0.1:9999", path)).unwrap_or_default()
    }

    /// What a query gives: the value of each series. None where Prometheus refuses it.
    fn query(&self, text: &str) -> Option<Vec<f64>> {
        let escaped: String = text.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let answer = self.get(&format!("/api/v1/query?query={escaped}"));
        let value = |series: &Value| series["value"][1].as_str()?.parse().ok();
        (answer["status"] == "success")
            .then(|| answer["data"]["result"].as_array().into_iter().flatten().filter_map(value).collect())
    }

    /// The one value that a query gives.
    fn one(&self, text: &str) -> Option<f64> {
        self.query(text).filter(|values| values.len() == 1).map(|values| values[0])
    }
}

#[test]
fn a_real_prometheus_scrapes_them_and_answers_the_queries_of_rules_and_dashboard() {
    need!("ip", "nft", "prometheus", "promtool");
    let net = Net::new(3);
    net.lose_one_of_ten(2);
    // One of them has what the dashboard shows of HTTP probes and of name servers too; there is none, which takes time as well.
    net.resolve_by_server();
    let flags = ["--interval=20ms", "--timeout=100ms"];
    let own = |node| {
        if node == 0 { &["--protocol=icmp,http", "--peers-dns=canaries.test."][..] } else { &["--protocol=icmp"] }
    };
    let canaries: Vec<Canary> = (0..3).map(|node| Canary::start(&net, node, &[&flags, own(node)].concat())).collect();
    let lint = net.with_input(0, "promtool check metrics", &canaries[0].page().text);
    assert!(lint.is_empty(), "promtool: {lint}");
    let prometheus = Prometheus::start(&net);
    // Each of three sees two others, by both families, and one of them by HTTP too.
    until(|| prometheus.one("count(kube_canary_peer_up == 1)") == Some(16.0), "Prometheus sees all links up");
    assert_eq!(prometheus.one("count(kube_canary_build_info)"), Some(3.0));
    std::thread::sleep(Duration::from_secs(12));

    // 100 probes a second for each pair and some 12 seconds: one of ten, four standard errors up and down.
    let loss = |from: usize, to: usize| {
        let labels = format!("{{node=\"node-{from}\",peer_node=\"node-{to}\",proto=\"icmp\"}}");
        prometheus.one(&format!("kube_canary:loss:ratio_rate5m{labels}")).unwrap_or(-1.0)
    };
    assert!((0.06..0.14).contains(&loss(0, 2)), "{}", loss(0, 2));
    assert!((0.06..0.14).contains(&loss(1, 2)), "{}", loss(1, 2));
    assert_eq!((loss(0, 1), loss(1, 0), loss(2, 0)), (0.0, 0.0, 0.0));
    let slowest = prometheus.one("max(kube_canary:rtt_seconds:p99_5m{proto=\"icmp\"})").unwrap_or(-1.0);
    assert!(slowest > 0.0 && slowest < 0.1, "{slowest}");
    assert_eq!(alerts(&prometheus, "KubeCanaryLoss"), ["node-2"]);
    assert_eq!(alerts(&prometheus, "KubeCanaryNodeDown"), [""; 0]);

    // Two nodes report the third down; the alert waits for its two minutes.
    net.link(2, "down");
    until(|| alerts(&prometheus, "KubeCanaryNodeDown") == ["node-2"], "the alert for node-2 is pending");

    // All rules could be evaluated, and all that the dashboard asks for is there.
    let rules = prometheus.get("/api/v1/rules");
    let groups = rules["data"]["groups"].as_array().unwrap();
    let rules: Vec<&Value> = groups.iter().flat_map(|group| group["rules"].as_array().unwrap()).collect();
    assert!(rules.len() >= 8, "{rules:?}");
    for rule in rules {
        assert_eq!(rule["health"], "ok", "{rule}");
    }
    let dashboard = std::fs::read_to_string(format!("{MONITORING}/dashboard.json")).unwrap();
    let mut asked = Vec::new();
    expressions(&serde_json::from_str(&dashboard).unwrap(), &mut asked);
    assert!(asked.len() >= 10, "{asked:?}");
    for text in asked {
        let text = text.replace("$__rate_interval", "10s").replace("$peer_node", ".*").replace("$proto", ".*");
        let answer = prometheus.query(&text).unwrap_or_else(|| panic!("refused: {text}"));
        assert!(!answer.is_empty(), "nothing answers {text}");
    }
}

/// For whom an alert waits or fires, but for HTTP: that a busy machine's canaries answer late is not the wire's doing.
fn alerts(prometheus: &Prometheus, name: &str) -> Vec<String> {
    let answer = prometheus.get("/api/v1/alerts");
    let alerts = answer["data"]["alerts"].as_array().cloned().unwrap_or_default();
    let of_name =
        alerts.iter().filter(|alert| alert["labels"]["alertname"] == name && alert["labels"]["proto"] != "http");
    of_name.map(|alert| alert["labels"]["peer_node"].as_str().unwrap_or("?").to_string()).collect()
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
