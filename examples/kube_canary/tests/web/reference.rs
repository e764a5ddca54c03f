//! The reference of all metrics. In: the page of a canary that has all of them. Out: whether `deploy/monitoring/metrics.md` has the
//! same contents. With UPDATE_REFERENCE=1 the file is written.

use std::collections::{BTreeMap, BTreeSet};

use kube_canary::histogram::Bounds;
use kube_canary::mesh::{Mesh, Shared};
use kube_canary::options::Options;
use kube_canary::peer::Peer;
use kube_canary::protocol::Protocol;
use kube_canary::tallies::TargetTally;

use crate::client::get;
use crate::fixture::{options, serve};

const REFERENCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/monitoring/metrics.md");

/// A mesh that produces every metric.
fn mesh() -> Shared {
    let mut mesh = Mesh::new(Bounds::default(), u64::MAX, 9, "a");
    let peer = |last: u8| Peer { zone: "z".into(), cordoned: true, ..Peer::on([10, 0, 0, last].into(), "b") };
    mesh.update("flags", vec![peer(1), Peer { address: "fd00::1".parse().unwrap(), ..peer(1) }], 0);
    let ids: Vec<_> = mesh.entries().map(|(id, _)| id).collect();
    for id in ids {
        for protocol in Protocol::ALL {
            let book = mesh.book(id, protocol).unwrap();
            let sequence = book.send(0);
            book.answer(sequence, 3_000_000, Some(60));
        }
    }
    mesh.tallies.resolved("A", 3_000_000);
    let mut target = TargetTally::new("tcp:a:1");
    target.take(Ok(()), 3_000_000);
    mesh.tallies.targets.push(target);
    let source = mesh.tallies.sources.entry("dns").or_default();
    (source.succeeded, source.last_success) = (1, Some(1));
    Shared::new(mesh)
}

/// For each family: its type, its help, and the names of its labels.
fn families(page: &str) -> BTreeMap<String, (String, String, BTreeSet<String>)> {
    let mut families: BTreeMap<String, (String, String, BTreeSet<String>)> = BTreeMap::new();
    for line in page.lines() {
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|line| line.split_once(' ')) {
            families.entry(name.into()).or_default().1 = help.trim_end_matches('.').into();
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|line| line.split_once(' ')) {
            families.entry(name.into()).or_default().0 = kind.into();
        } else if let Some((name, labels)) = line.split_once('{') {
            let of = |suffix: &&str| name.strip_suffix(suffix).filter(|name| families.contains_key(*name));
            let name = ["_bucket", "_sum", "_count"].iter().find_map(of).unwrap_or(name).to_string();
            let labels = labels.split("\",").filter_map(|label| Some(label.split_once("=\"")?.0.to_string()));
            families.get_mut(&name).unwrap().2.extend(labels.filter(|label| label != "le" && label != "quantile"));
        }
    }
    families.retain(|name, _| !name.starts_with("allocanary_"));
    families
}

#[test]
fn the_reference_has_every_metric_as_it_is() {
    let page = |options: &Options| families(&get(serve(options, mesh()), "/metrics").text());
    let all = page(&Options { label_addresses: false, ..options() });
    let basic = page(&Options { all_series: false, label_addresses: false, ..options() });
    let mut text = String::from(
        "# Metrics\n\nMade from a canary's own page: `UPDATE_REFERENCE=1 cargo test -p kube_canary --test web reference`. \
         `basic` is\nwhether it is there without `--series all`. `peer_zone` is there where zones are known, `family` for IPv6 only, \
         and\n`peer_ip` with `--label-peer-ip` or where two peers have one name. The allocator's metrics (`allocanary_*`) are those of \
         the\nlibrary.\n\n| metric | type | labels | basic | what it is |\n|---|---|---|---|---|\n",
    );
    for (name, (kind, help, labels)) in &all {
        let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
        let is_basic = if basic.contains_key(name) { "yes" } else { "no" };
        text += &format!("| `{name}` | {kind} | {} | {is_basic} | {help} |\n", labels.join(", "));
    }
    assert!(all.len() >= 25, "{all:?}");
    if std::env::var_os("UPDATE_REFERENCE").is_some() {
        std::fs::write(REFERENCE, &text).unwrap();
    }
    let written = std::fs::read_to_string(REFERENCE).unwrap_or_default();
    assert_eq!(written, text, "run it with UPDATE_REFERENCE=1");
}

/// A panel that is empty with the manifests' flags must say why.
#[test]
fn panels_that_need_all_series_say_so() {
    let reference = std::fs::read_to_string(REFERENCE).unwrap();
    let row = |line: &str| -> Option<(String, bool)> {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        Some((cells.get(1)?.strip_prefix('`')?.trim_end_matches('`').to_string(), cells.get(4)? == &"yes"))
    };
    let metrics: BTreeMap<String, bool> = reference.lines().filter_map(row).collect();
    // Of the basic series, this one has neither buckets nor a native histogram.
    let needs_all = |text: &str| {
        let names = text.split(|other: char| !(other.is_ascii_alphanumeric() || other == '_' || other == ':'));
        names.filter(|name| name.starts_with("kube_canary_")).any(|name| {
            let family = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
            let is_basic =
                *metrics.get(name).or_else(|| metrics.get(family)).unwrap_or_else(|| panic!("no metric {name}"));
            !is_basic || name == "kube_canary_rtt_seconds_bucket"
        }) || text.contains("quantile=\"\"") // native histograms
    };
    let dashboard = include_str!("../../deploy/monitoring/dashboard.json");
    let dashboard: serde_json::Value = serde_json::from_str(dashboard).unwrap();
    let mut told = 0;
    for panel in dashboard["panels"].as_array().unwrap() {
        let mut texts = panel["targets"].as_array().into_iter().flatten().filter_map(|target| target["expr"].as_str());
        // If a query has alternatives (`or`), one that does not need all series is enough.
        let needs = texts.any(|text| text.split(" or ").all(needs_all));
        let says = panel["description"].as_str().is_some_and(|text| text.contains("--series all"));
        assert_eq!(needs, says, "{}", panel["title"]);
        told += u32::from(says);
    }
    assert!(told >= 3 && metrics.len() >= 25);
}
