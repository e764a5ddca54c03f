//! The canary's metrics. In: the mesh, read anew at each scrape. Out: series, through an encoder of prometheus-client.
//!
//! A peer has 26 series under a protocol: 12 buckets, sum and count of its round trips, and 12 more; 17 with quantiles in
//! place of buckets. All that counts is there from the first probe on, at 0: Prometheus' `rate` does not see a counter's
//! step from "absent" to 1, and a first lost packet is what a canary is for. What may be absent is said so below.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType::{self, Counter, Gauge};
use prometheus_client::registry::Unit;

use super::facts::Facts;
use super::labels::{Labels, Series};
use crate::book::Book;
use crate::mesh::{Entry, Mesh, Shared};
use crate::protocol::{Loss, Protocol};
use crate::tallies::Refused;

/// The family of round-trip times, with its unit.
pub(super) const RTT: &str = "kube_canary_rtt_seconds";

const QUANTILES: [(f64, &str); 3] = [(0.5, "0.5"), (0.9, "0.9"), (0.99, "0.99")];

type Count = (&'static str, &'static str, fn(&Book) -> u64);
type Level = (&'static str, &'static str, Option<Unit>, fn(&Entry, &Book) -> Option<f64>);

const COUNTS: [Count; 5] = [
    ("kube_canary_probes_sent", "Probes sent: replies, lost and in flight add up to it", Book::sent),
    ("kube_canary_replies", "Probes answered before their deadline", Book::replies),
    ("kube_canary_late", "Answers to probes that counted as lost already", Book::late),
    ("kube_canary_duplicates", "Answers to probes that were answered already", Book::duplicates),
    ("kube_canary_reordered", "Replies that came after the reply to a later probe", Book::reordered),
];

/// Those that are absent where nobody knows: up before the first probe is decided and of a peer that went away, the rest
/// before the first reply or where the socket does not say.
const LEVELS: [Level; 4] = [
    ("kube_canary_in_flight", "Probes neither answered nor lost yet", None, |_, book| Some(book.in_flight().into())),
    ("kube_canary_peer_up", "Whether the latest decided probe was answered", None, |entry, book| {
        book.up().filter(|_| entry.probed()).map(|up| up.into())
    }),
    (
        "kube_canary_rtt_jitter",
        "Mean deviation of successive round trips, as in RFC 3550",
        Some(Unit::Seconds),
        |_, book| (book.replies() > 0).then(|| book.jitter_ns() / 1e9),
    ),
    ("kube_canary_reply_hop_limit", "Hops that the latest reply had left", None, |_, book| {
        book.hop_limit().map(f64::from)
    }),
];

/// Reads the mesh at each scrape.
#[derive(Debug)]
pub(super) struct MeshCollector {
    mesh: Shared,
    facts: Facts,
    quantiles: bool,
    labels: Mutex<Labels>,
}

impl MeshCollector {
    /// Of that mesh, with quantiles in place of buckets where told so.
    pub(super) fn new(mesh: Shared, facts: Facts, quantiles: bool) -> Self {
        MeshCollector { mesh, facts, quantiles, labels: Mutex::default() }
    }

    fn rtt(&self, (mesh, labels): (&Mesh, &Labels), encoder: &mut DescriptorEncoder) -> fmt::Result {
        // `RTT` without its unit. As a histogram without buckets a summary has its sum and its count.
        let help = "Round-trip times of probes";
        let mut family =
            encoder.encode_descriptor("kube_canary_rtt", help, Some(&Unit::Seconds), MetricType::Histogram)?;
        let mut buckets: Vec<(f64, u64)> = Vec::with_capacity(65);
        for (_, peer, protocol, book) in books(mesh, labels) {
            let rtt = book.rtt();
            buckets.clear();
            if !self.quantiles {
                let bounds = rtt.bounds().nanos().iter().map(|bound| *bound as f64 / 1e9).chain([f64::INFINITY]);
                buckets.extend(bounds.zip(rtt.counts().iter().copied()));
            }
            let sum = rtt.sum_ns() as f64 / 1e9;
            let series = one(peer, protocol);
            family.encode_family(&series)?.encode_histogram::<NoLabelSet>(sum, rtt.count(), &buckets, None)?;
            for (quantile, name) in QUANTILES.iter().filter(|_| self.quantiles) {
                let value = rtt.quantile(*quantile).map_or(f64::NAN, |nanos| nanos as f64 / 1e9);
                let series = Series { peer, rest: [("proto", protocol.name()), ("quantile", name)] };
                family.encode_family(&series)?.encode_gauge(&value)?;
            }
        }
        Ok(())
    }

    fn peers(&self, (mesh, labels): (&Mesh, &Labels), encoder: &mut DescriptorEncoder) -> fmt::Result {
        for (name, help, value) in COUNTS {
            let mut family = encoder.encode_descriptor(name, help, None, Counter)?;
            for (_, peer, protocol, book) in books(mesh, labels) {
                count(&mut family, &one(peer, protocol), value(book))?;
            }
        }
        let mut family = encoder.encode_descriptor("kube_canary_lost", "Probes lost, by reason", None, Counter)?;
        for (_, peer, protocol, book) in books(mesh, labels) {
            for why in Loss::ALL {
                let series = Series { peer, rest: [("proto", protocol.name()), ("reason", why.name())] };
                count(&mut family, &series, book.lost_for(why))?;
            }
        }
        for (name, help, unit, value) in LEVELS {
            let mut family = encoder.encode_descriptor(name, help, unit.as_ref(), Gauge)?;
            for (entry, peer, protocol, book) in books(mesh, labels) {
                if let Some(value) = value(entry, book) {
                    gauge(&mut family, &one(peer, protocol), value)?;
                }
            }
        }
        self.rtt((mesh, labels), encoder)
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
        // Those that take new pods have no series: there may be a thousand of them.
        let help = "Peers on nodes that take no new pods: that they go away is no alarm";
        let mut family = encoder.encode_descriptor("kube_canary_peer_cordoned", help, None, Gauge)?;
        for entry in here().filter(|entry| entry.peer.cordoned) {
            let address = entry.peer.address.to_string();
            gauge(&mut family, &[("peer_node", &*entry.peer.node), ("peer_ip", &*address)], 1.0)?;
        }
        Ok(())
    }

    fn own(&self, mesh: &Mesh, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let tallies = &mesh.tallies;
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
        let help = "Refreshes of the sources of peers, by result";
        let mut family = encoder.encode_descriptor("kube_canary_discovery_refreshes", help, None, Counter)?;
        for (source, tally) in &tallies.sources {
            count(&mut family, &[("source", *source), ("result", "success")], tally.succeeded)?;
            count(&mut family, &[("source", *source), ("result", "failure")], tally.failed)?;
        }
        let (name, help) =
            ("kube_canary_discovery_last_success_timestamp", "When a source of peers last answered, since 1970");
        let mut family = encoder.encode_descriptor(name, help, Some(&Unit::Seconds), Gauge)?;
        for (source, tally) in &tallies.sources {
            if let Some(at) = tally.last_success {
                gauge(&mut family, &[("source", *source)], at as f64)?;
            }
        }
        let help = "The build of this canary, always 1";
        let Facts { version, allocator, architecture } = self.facts;
        let mut family = encoder.encode_descriptor("kube_canary_build_info", help, None, Gauge)?;
        let labels = [("version", version), ("allocator", allocator), ("architecture", architecture)];
        gauge(&mut family, &labels, 1.0)
    }
}

impl Collector for MeshCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        // One lock for the whole page: counters that add up do so in every scrape.
        let mesh = self.mesh.lock();
        let mut labels = self.labels.lock().unwrap_or_else(PoisonError::into_inner);
        labels.read(&mesh);
        self.peers((&mesh, &labels), &mut encoder)?;
        self.mesh(&mesh, &mut encoder)?;
        self.own(&mesh, &mut encoder)
    }
}

/// All books: whose, the labels of that peer, and under which protocol.
fn books<'a>(mesh: &'a Mesh, labels: &'a Labels) -> impl Iterator<Item = (&'a Entry, &'a str, Protocol, &'a Book)> {
    labels.of(mesh).flat_map(|(entry, peer)| {
        let books = Protocol::ALL.into_iter().zip(&entry.books);
        books.filter_map(move |(protocol, book)| Some((entry, peer, protocol, book.as_deref()?)))
    })
}

fn one(peer: &str, protocol: Protocol) -> Series<'_> {
    Series { peer, rest: [("proto", protocol.name()), ("", "")] }
}

fn count(family: &mut MetricEncoder, labels: &impl EncodeLabelSet, value: u64) -> fmt::Result {
    family.encode_family(labels)?.encode_counter::<NoLabelSet, _, u64>(&value, None)
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
