//! The contents of the pages: formats, sums, names, methods.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};

use kube_canary::histogram::Bounds;
use kube_canary::mesh::{Mesh, Shared};
use kube_canary::options::Options;
use kube_canary::peer::Peer;
use kube_canary::protocol::Protocol;
use serde_json::Value;

use crate::client::{ask, get};
use crate::fixture::{mesh, one_peer, options, serve};

const OPEN: &str = "accept: application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.2\r\n";

/// The canary's samples, by the text before the value.
fn samples(page: &str) -> BTreeMap<&str, f64> {
    let lines = page.lines().filter(|line| line.starts_with("kube_canary_"));
    lines
        .map(|line| line.rsplit_once(' ').expect("a value"))
        .map(|(name, value)| (name, value.parse().unwrap()))
        .collect()
}

/// The sum over all peers of a family.
fn sum(samples: &BTreeMap<&str, f64>, family: &str) -> f64 {
    samples.iter().filter(|(name, _)| name.split('{').next() == Some(family)).map(|(_, value)| value).sum()
}

#[test]
fn what_is_counted_adds_up_on_the_page() {
    let page = get(serve(&options(), mesh(8)), "/metrics").text();
    let samples = samples(&page);
    let of = |family| sum(&samples, family);
    assert_eq!(of("kube_canary_probes_sent_total"), 8.0 * 121.0);
    assert_eq!(
        of("kube_canary_probes_sent_total"),
        of("kube_canary_replies_total") + of("kube_canary_lost_total") + of("kube_canary_in_flight")
    );
    assert_eq!(of("kube_canary_rtt_seconds_count"), of("kube_canary_replies_total"));
    let inf = samples.iter().filter(|(name, _)| name.contains("le=\"+Inf\"")).map(|(_, value)| value).sum::<f64>();
    assert_eq!(inf, of("kube_canary_replies_total"));
    let of_one = samples.keys().filter(|name| name.contains("peer_node=\"node-003\"")).count();
    assert_eq!(of_one, 25, "series of one peer, as the documentation says");
    assert_eq!(samples["kube_canary_peers{state=\"known\"}"], 8.0);
    assert!(
        page.contains("peer_node=\"node-001\",peer_ip=\"10.0.0.2\",peer_zone=\"zone-b\",proto=\"icmp\"} "),
        "{page}"
    );
    assert!(page.contains("allocanary_resident_bytes"));
}

#[test]
fn gunzip_gives_the_plain_page() {
    // The metrics of this mesh do not change, but those of the process do.
    let ours =
        |page: &str| page.lines().filter(|line| !line.contains("allocanary_")).map(str::to_owned).collect::<Vec<_>>();
    for peers in [0, 1, 8, 300] {
        let server = serve(&options(), mesh(peers));
        for accept in ["", OPEN] {
            let plain = ask(server, "GET", "/metrics", accept);
            let zipped = ask(server, "GET", "/metrics", &format!("{accept}accept-encoding: deflate, gzip;q=0.8\r\n"));
            assert_eq!((plain.header("content-encoding"), zipped.header("content-encoding")), (None, Some("gzip")));
            assert_eq!(ours(&plain.text()), ours(&zipped.gunzipped()));
            assert!(peers < 8 || zipped.body.len() * 5 < plain.body.len());
        }
        let zipped = ask(server, "GET", "/peers", "accept-encoding: gzip\r\n").gunzipped();
        assert_eq!(serde_json::from_str::<Value>(&zipped).unwrap()["peers"].as_array().unwrap().len(), peers);
    }
}

#[test]
fn a_page_past_the_memory_for_pages_is_refused_and_counted_and_gzipped_it_is_served() {
    let server = serve(&options(), mesh(4500));
    let plain = get(server, "/metrics");
    assert_eq!(plain.status, 507);
    assert!(plain.text().contains("curl --compressed"), "{}", plain.text());
    let zipped = ask(server, "GET", "/metrics", "accept-encoding: gzip\r\n");
    assert_eq!(zipped.status, 200);
    assert!(zipped.gunzipped().contains("\nkube_canary_http_pages_refused_total 1\n"));
}

#[test]
fn openmetrics_is_for_those_that_ask() {
    let server = serve(&options(), mesh(1));
    let open = ask(server, "GET", "/metrics", OPEN);
    assert!(open.header("content-type").unwrap().starts_with("application/openmetrics-text; version=1.0.0"));
    assert!(open.text().ends_with("# EOF\n") && open.text().contains("# TYPE kube_canary_lost counter\n"));
    assert!(open.text().contains("# UNIT kube_canary_rtt_seconds seconds\n"));
    let classic = get(server, "/metrics");
    assert!(classic.header("content-type").unwrap().starts_with("text/plain; version=0.0.4"));
    assert!(!classic.text().contains("EOF") && classic.text().contains("# TYPE kube_canary_lost_total counter\n"));
}

#[test]
fn promtool_finds_nothing_to_complain_of() {
    for (peers, quantiles) in [(0, false), (1, false), (8, true), (8, false), (1000, false), (1000, true)] {
        let page = get(serve(&Options { quantiles, ..options() }, mesh(peers)), "/metrics").text();
        assert!(
            page.matches("\nkube_canary_").count() > 10 + peers,
            "an empty page has nothing to complain of: {page}"
        );
        let promtool = Command::new("promtool")
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut promtool = match promtool {
            Ok(promtool) => promtool,
            Err(error) => {
                allocanary_testing::skipped::skipped(format_args!("promtool is not installed ({error})"));
                return;
            }
        };
        promtool.stdin.take().unwrap().write_all(page.as_bytes()).unwrap();
        let output = promtool.wait_with_output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert!(output.status.success() && said.is_empty(), "{peers} peers: {said}");
    }
}

#[test]
fn the_default_is_twelve_series_for_a_peer_by_two_protocols() {
    let mesh = one_peer(|mesh, id| {
        for protocol in [Protocol::Icmp, Protocol::Udp] {
            let book = mesh.book(id, protocol).unwrap();
            let sequence = book.send(0);
            book.answer(sequence, 3_000_000, None);
        }
    });
    let basic = Options { all_series: false, label_addresses: false, ..options() };
    let page = get(serve(&basic, mesh), "/metrics").text();
    let mut of_peer: Vec<&str> = page.lines().filter(|line| line.contains("peer_node")).collect();
    of_peer.sort();
    let wanted = [
        "kube_canary_lost_total{peer_node=\"b\",proto=\"icmp\",reason=\"send_error\"} 0",
        "kube_canary_lost_total{peer_node=\"b\",proto=\"icmp\",reason=\"timeout\"} 0",
        "kube_canary_lost_total{peer_node=\"b\",proto=\"icmp\",reason=\"unreachable\"} 0",
        "kube_canary_lost_total{peer_node=\"b\",proto=\"udp\",reason=\"send_error\"} 0",
        "kube_canary_lost_total{peer_node=\"b\",proto=\"udp\",reason=\"timeout\"} 0",
        "kube_canary_lost_total{peer_node=\"b\",proto=\"udp\",reason=\"unreachable\"} 0",
        "kube_canary_peer_up{peer_node=\"b\",proto=\"icmp\"} 1",
        "kube_canary_peer_up{peer_node=\"b\",proto=\"udp\"} 1",
        "kube_canary_replies_total{peer_node=\"b\",proto=\"icmp\"} 1",
        "kube_canary_replies_total{peer_node=\"b\",proto=\"udp\"} 1",
        "kube_canary_rtt_seconds{peer_node=\"b\",proto=\"icmp\",quantile=\"0.5\"} 0.002999808",
        "kube_canary_rtt_seconds{peer_node=\"b\",proto=\"icmp\",quantile=\"0.99\"} 0.002999808",
    ];
    assert_eq!(of_peer, wanted);
}

#[test]
fn ten_thousand_peers_have_a_page_and_too_many_a_page_without_them() {
    let basic = Options { all_series: false, label_addresses: false, ..options() };
    let gzip = "accept-encoding: gzip\r\n";
    let page = ask(serve(&basic, mesh(10_000)), "GET", "/metrics", gzip);
    assert_eq!((page.status, page.gunzipped().matches("\nkube_canary_peer_up{").count()), (200, 10_000));
    // All series of this many peers do not fit. The page must still contain the canary's metrics about itself.
    let page = ask(serve(&options(), mesh(40_000)), "GET", "/metrics", gzip);
    assert_eq!(page.status, 200);
    let text = page.gunzipped();
    assert!(!text.contains("peer_ip") && text.contains("\nkube_canary_peers{state=\"known\"} 40000\n"), "{text}");
    let line = text.lines().find(|line| line.starts_with("kube_canary_pages_without_peers_total ")).unwrap();
    assert!(!line.ends_with(" 0"), "{line}");
}

#[test]
fn quantiles_cost_fewer_series() {
    let page = get(serve(&Options { quantiles: true, ..options() }, mesh(1)), "/metrics").text();
    let samples = samples(&page);
    assert!(page.contains("# TYPE kube_canary_rtt_seconds summary\n") && !page.contains("_bucket"));
    assert_eq!(samples.keys().filter(|name| name.contains("peer_ip")).count(), 16);
    let median = samples.iter().find(|(name, _)| name.contains("quantile=\"0.5\"")).unwrap().1;
    assert!((50e-6..1.6e-3).contains(median), "{median}");
}

/// After an hour of quick answers there are slow ones for a minute. The quantiles must show the slow ones.
#[test]
fn quantiles_are_of_the_latest_replies() {
    let mesh = one_peer(|mesh, id| {
        let book = mesh.book(id, Protocol::Icmp).unwrap();
        for second in 0..3664 {
            let sequence = book.send(second);
            book.answer(sequence, if second < 3600 { 100_000 } else { 50_000_000 }, None);
        }
    });
    let server = serve(&Options { quantiles: true, ..options() }, mesh);
    let slow = |seconds: f64| (0.0499..0.0501).contains(&seconds);
    let peers: Value = serde_json::from_str(&get(server, "/peers").text()).unwrap();
    let icmp = &peers["peers"][0]["protocols"]["icmp"];
    assert!(["p50_seconds", "p99_seconds"].iter().all(|name| slow(icmp[name].as_f64().unwrap())), "{icmp}");
    let brief: Value = serde_json::from_str(&get(server, "/peers?brief").text()).unwrap();
    assert!(slow(brief["peers"][0][3].as_f64().unwrap() / 1e6), "{brief}");
    let page = get(server, "/metrics").text();
    let quantiles: Vec<f64> =
        samples(&page).iter().filter(|(name, _)| name.contains("quantile=")).map(|(_, value)| *value).collect();
    assert!(quantiles.len() == 3 && quantiles.into_iter().all(slow), "{page}");
    assert!(
        page.contains("# HELP kube_canary_rtt_seconds Round-trip times of probes; quantiles of the last 64 replies\n")
    );
}

#[test]
fn probes_with_a_connection_have_its_time() {
    let mut mesh = Mesh::new(Bounds::default(), 0, 9, "a");
    mesh.update("flags", vec![Peer::on([10, 0, 0, 1].into(), "b")], 0);
    let (id, _) = mesh.at([10, 0, 0, 1].into()).unwrap();
    for protocol in Protocol::ALL {
        let book = mesh.book(id, protocol).unwrap();
        let sequence = book.send(0);
        book.answer(sequence, 3_000_000, None);
        if protocol.connects_first() {
            book.connected(1_000_000);
        }
    }
    mesh.tallies.resolved("A", 3_000_000);
    // This is above the last bound.
    mesh.tallies.resolved("A", 9_000_000_000);
    let server = serve(&options(), Shared::new(mesh));
    for accept in ["", OPEN] {
        let page = ask(server, "GET", "/metrics", accept).text();
        let labels = |proto| format!("{{peer_node=\"b\",peer_ip=\"10.0.0.1\",proto=\"{proto}\"}}");
        for (proto, shown) in [("icmp", false), ("udp", false), ("tcp", false), ("http", true)] {
            let (sum, count) = (format!("_sum{} 0.001\n", labels(proto)), format!("_count{} 1\n", labels(proto)));
            for line in [sum, count] {
                assert_eq!(page.contains(&format!("\nkube_canary_connect_seconds{line}")), shown, "{line}{page}");
            }
        }
        assert!(page.contains("\nkube_canary_resolution_seconds_bucket{le=\"0.001\",record=\"A\"} 0\n"), "{page}");
        assert!(page.contains("\nkube_canary_resolution_seconds_bucket{le=\"0.005\",record=\"A\"} 1\n"), "{page}");
        let last = "\nkube_canary_resolution_seconds_bucket{le=\"+Inf\",record=\"A\"} 2\n";
        assert!(page.contains(last), "without it Prometheus has no quantile: {page}");
        assert!(page.contains("\nkube_canary_resolution_seconds_count{record=\"A\"} 2\n"), "{page}");
    }
}

#[test]
fn names_of_nodes_are_escaped() {
    let mut mesh = Mesh::new(Bounds::default(), 0, 9, "a");
    let name = "a\"b\\c\nd\u{1}</script><img src=x>";
    mesh.update("flags", vec![Peer::on([10, 0, 0, 1].into(), name)], 0);
    let (id, _) = mesh.at([10, 0, 0, 1].into()).unwrap();
    mesh.book(id, Protocol::Udp).unwrap().send(0);
    let server = serve(&options(), Shared::new(mesh));
    let page = get(server, "/metrics").text();
    assert!(page.contains(
        "{peer_node=\"a\\\"b\\\\c\\nd\u{fffd}</script><img src=x>\",peer_ip=\"10.0.0.1\",proto=\"udp\"} 1\n"
    ));
    let peers: Value = serde_json::from_str(&get(server, "/peers").text()).unwrap();
    assert_eq!(peers["peers"][0]["node"], name);
    let html = get(server, "/");
    assert!(html.header("content-security-policy").unwrap().starts_with("default-src 'none'"));
    for evil in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "http://", "https://"] {
        assert!(!html.text().replace("http://www.w3.org/2000/svg", "").contains(evil), "the page uses {evil}");
    }
}

#[test]
fn methods_and_paths_that_are_not_there() {
    let server = serve(&options(), mesh(1));
    let (head, whole) = (ask(server, "HEAD", "/healthz", ""), get(server, "/healthz"));
    assert_eq!((head.status, head.body.len(), whole.status), (200, 0, 200));
    assert_eq!(head.header("content-length"), Some(&*whole.body.len().to_string()));
    let post = ask(server, "POST", "/metrics", "content-length: 0\r\n");
    assert_eq!((post.status, post.header("allow")), (405, Some("GET, HEAD")));
    assert_eq!(ask(server, "GET", "/metrics", "content-length: 5\r\n").status, 413);
    assert_eq!(ask(server, "GET", "/metrics", "transfer-encoding: chunked\r\n").status, 413);
    let missing = get(server, "/nothing?x");
    assert_eq!(missing.status, 404);
    assert!(missing.text().contains("/metrics") && missing.text().starts_with("/nothing is not here"));
}

#[test]
fn health_and_readiness() {
    let server = serve(&options(), mesh(1));
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert_eq!((get(server, "/healthz").status, get(server, "/readyz").status), (200, 200));
    let lonely = serve(&options(), mesh(0));
    let answer = get(lonely, "/readyz");
    assert_eq!((answer.status, answer.text()), (503, "no peers are known yet\n".into()));
    for (server, ready, problem) in [(server, true, Value::Null), (lonely, false, "no peers are known yet".into())] {
        let page: Value = serde_json::from_str(&get(server, "/peers").text()).unwrap();
        assert_eq!((&page["ready"], &page["problem"]), (&ready.into(), &problem));
    }
}
