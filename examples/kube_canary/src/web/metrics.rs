//! The canary's metrics about itself. In: the mesh, which is read again at each scrape. Out: series, through an encoder of
//! prometheus-client. The series of its peers are in [`super::series`].

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType::{self, Counter, Gauge};
use prometheus_client::registry::Unit;

use super::facts::Facts;
use crate::histogram::Histogram;
use crate::mesh::{Mesh, Shared, place};
use crate::tallies::{Outcome, Refused, Tallies};

/// Reads the mesh at each scrape.
#[derive(Debug)]
pub(super) struct MeshCollector {
    mesh: Shared,
    facts: Facts,
    /// A number that follows from the node's name.
    order: u64,
    started: f64,
}

impl MeshCollector {
    /// The collector of this mesh, on this node.
    pub(super) fn new(mesh: Shared, facts: Facts, node: &str) -> Self {
        let started = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_millis() as f64 / 1e3);
        // 48 bits, because a sample is a floating-point number, which has such numbers exactly.
        MeshCollector { mesh, facts, order: place(node.as_bytes()) >> 16, started }
    }

    fn mesh(&self, mesh: &Mesh, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let here = || mesh.entries().map(|(_, entry)| entry).filter(|entry| entry.gone_since.is_none());
        let help = "Peers: that discovery names, that this canary probes, and that answer by any protocol";
        let mut family = encoder.encode_descriptor("kube_canary_peers", help, None, Gauge)?;
        let probed = || here().filter(|entry| entry.probed());
        let up = probed().filter(|entry| entry.up() == Some(true)).count();
        for (state, peers) in [("known", here().count()), ("probed", probed().count()), ("up", up)] {
            gauge(&mut family, &[("state", state)], peers as f64)?;
        }
        // Peers on nodes that take new pods have no series here, because there may be a thousand of them.
        let help = "Peers on nodes that take no new pods: that they go away is no alarm";
        let mut family = encoder.encode_descriptor("kube_canary_peer_cordoned", help, None, Gauge)?;
        let mut nodes: Vec<&str> = here().filter(|entry| entry.peer.cordoned).map(|entry| &*entry.peer.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        for node in nodes {
            gauge(&mut family, &[("peer_node", node)], 1.0)?;
        }
        Ok(())
    }

    fn events(tallies: &Tallies, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let plain = [
            (
                "kube_canary_socket_dropped_packets",
                "Packets that the kernel dropped because a socket of this canary was full",
                tallies.socket_drops,
            ),
            (
                "kube_canary_probes_skipped",
                "Probes not begun because too many were under way, neither sent nor lost",
                tallies.probes_skipped,
            ),
            ("kube_canary_clock_steps", "Steps of the wall clock that were noticed", tallies.clock_steps),
            ("kube_canary_echo_replies", "Echo requests of other canaries that were answered", tallies.echoed),
            (
                "kube_canary_http_connections_refused",
                "Connections to the web server that were cut because too many were open",
                tallies.connections_refused,
            ),
            (
                "kube_canary_http_pages_refused",
                "Pages refused for want of room: others are read slowly, or it is too large by itself",
                tallies.pages_refused,
            ),
            (
                "kube_canary_pages_without_peers",
                "Metrics pages without the series of peers, since with them they were larger than the memory for pages",
                tallies.pages_without_peers,
            ),
            (
                "kube_canary_unstamped_replies",
                "Answers to ICMP and UDP probes, late and duplicate ones too, without the kernel's receive time: \
                 their round trips are shown as up to twice as long as they were, and 250 us",
                tallies.unstamped,
            ),
        ];
        for (name, help, value) in plain {
            let mut family = encoder.encode_descriptor(name, help, None, Counter)?;
            family.encode_counter::<NoLabelSet, _, u64>(&value, None)?;
        }
        let help = "Packets thrown away, by reason";
        let mut family = encoder.encode_descriptor("kube_canary_packets_refused", help, None, Counter)?;
        for why in Refused::ALL {
            count(&mut family, &[("reason", why.name())], tallies.refused[why as usize])?;
        }
        Ok(())
    }

    fn sources(tallies: &Tallies, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let help = "Refreshes of the sources of peers, by result";
        let mut family = encoder.encode_descriptor("kube_canary_discovery_refreshes", help, None, Counter)?;
        for (source, tally) in &tallies.sources {
            count(&mut family, &[("source", *source), ("result", "success")], tally.succeeded)?;
            count(&mut family, &[("source", *source), ("result", "failure")], tally.failed)?;
        }
        if !tallies.resolutions.is_empty() {
            let help = "How long name servers took, by kind of record, failures too";
            let mut family = encoder.encode_descriptor(
                "kube_canary_resolution",
                help,
                Some(&Unit::Seconds),
                MetricType::Histogram,
            )?;
            for (record, times) in &tallies.resolutions {
                histogram(&mut family, &[("record", *record)], times)?;
            }
        }
        let (name, help) =
            ("kube_canary_discovery_last_success_timestamp", "When a source of peers last answered, since 1970");
        let mut family = encoder.encode_descriptor(name, help, Some(&Unit::Seconds), Gauge)?;
        for (source, tally) in &tallies.sources {
            if let Some(at) = tally.last_success {
                gauge(&mut family, &[("source", *source)], at as f64)?;
            }
        }
        Ok(())
    }

    /// The targets of the flags.
    fn targets(tallies: &Tallies, encoder: &mut DescriptorEncoder) -> fmt::Result {
        if tallies.targets.is_empty() {
            return Ok(());
        }
        let help = "Whether the latest check of a target outside of the mesh was answered";
        let mut family = encoder.encode_descriptor("kube_canary_target_up", help, None, Gauge)?;
        for target in &tallies.targets {
            if let Some(up) = target.up {
                gauge(&mut family, &[("target", &*target.name)], up.into())?;
            }
        }
        let help = "Checks of targets outside of the mesh, by how they ended";
        let mut family = encoder.encode_descriptor("kube_canary_target_checks", help, None, Counter)?;
        for target in &tallies.targets {
            for outcome in Outcome::ALL {
                let labels = [("target", &*target.name), ("outcome", outcome.name())];
                count(&mut family, &labels, target.outcomes[outcome as usize])?;
            }
        }
        let help = "How long answered checks of targets took, from the name to the answer";
        let (name, kind) = ("kube_canary_target", MetricType::Histogram);
        let mut family = encoder.encode_descriptor(name, help, Some(&Unit::Seconds), kind)?;
        for target in &tallies.targets {
            histogram(&mut family, &[("target", &*target.name)], &target.times)?;
        }
        Ok(())
    }

    fn build(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let help = "The build of this canary, always 1";
        let Facts { version, allocator, architecture } = self.facts;
        let mut family = encoder.encode_descriptor("kube_canary_build_info", help, None, Gauge)?;
        let labels = [("version", version), ("allocator", allocator), ("architecture", architecture)];
        gauge(&mut family, &labels, 1.0)?;
        let help =
            "A number that follows from the node's name: of two nodes, alerts name the one with the smaller first";
        let mut family = encoder.encode_descriptor("kube_canary_node_order", help, None, Gauge)?;
        family.encode_gauge(&(self.order as i64))?;
        let help = "When this canary started, since 1970";
        let mut family = encoder.encode_descriptor("process_start_time", help, Some(&Unit::Seconds), Gauge)?;
        family.encode_gauge(&self.started)
    }
}

impl Collector for MeshCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let mesh = self.mesh.lock();
        self.mesh(&mesh, &mut encoder)?;
        MeshCollector::events(&mesh.tallies, &mut encoder)?;
        MeshCollector::sources(&mesh.tallies, &mut encoder)?;
        MeshCollector::targets(&mesh.tallies, &mut encoder)?;
        self.build(&mut encoder)
    }
}

fn count(family: &mut MetricEncoder, labels: &impl EncodeLabelSet, value: u64) -> fmt::Result {
    family.encode_family(labels)?.encode_counter::<NoLabelSet, _, u64>(&value, None)
}

fn histogram(family: &mut MetricEncoder, labels: &impl EncodeLabelSet, times: &Histogram) -> fmt::Result {
    let seconds = |nanos: u64| nanos as f64 / 1e9;
    let bounds = times.bounds().nanos().iter().map(|bound| seconds(*bound)).chain([f64::INFINITY]);
    let buckets: Vec<(f64, u64)> = bounds.zip(times.counts().iter().copied()).collect();
    let mut series = family.encode_family(labels)?;
    series.encode_histogram::<NoLabelSet>(seconds(times.sum_ns()), times.count(), &buckets, None)
}

fn gauge(family: &mut MetricEncoder, labels: &impl EncodeLabelSet, value: f64) -> fmt::Result {
    let mut series = family.encode_family(labels)?;
    // Whole numbers are shorter, and quicker to write, without ".0".
    if value.fract() == 0.0 && value.abs() < 1e15 {
        series.encode_gauge(&(value as i64))
    } else {
        series.encode_gauge(&value)
    }
}
