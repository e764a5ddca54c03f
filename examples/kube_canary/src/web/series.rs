//! The series of peers. In: the books. Out: lines of text. With basic series, a peer has 5 for each protocol, and two quantiles for the
//! first protocol. With all series there are 25 for each protocol: 12 buckets, sum and count of the round trips, and 11 more. With
//! quantiles instead of buckets there are 16. If a probe begins with a connection, sum and count of the connection times are two more.
//!
//! All counters are present from the first probe on, at 0: Prometheus' `rate` does not see the step of a counter from
//! "absent" to 1, and a canary must show the first lost packet. The series that may be absent are named below.
//!
//! prometheus-client writes all other lines, but not these. It writes each line in some twenty pieces, where six are enough, and took 9 ms
//! for the 25,000 lines of a thousand peers. Names, help and types still pass through [`Exposition`].

use std::fmt::Write;

use super::exposition::Exposition;
use super::labels::Labels;
use crate::book::Book;
use crate::mesh::{Entry, Mesh};
use crate::protocol::Loss;

/// The family of round-trip times, with its unit.
const RTT: &str = "kube_canary_rtt_seconds";

const QUANTILES: [(f64, &str); 3] =
    [(0.5, ",quantile=\"0.5\""), (0.9, ",quantile=\"0.9\""), (0.99, ",quantile=\"0.99\"")];

/// The set of series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Series {
    /// Those that the alerts need.
    Basic,
    /// All series, with histograms.
    Histograms,
    /// All series, with quantiles in place of buckets.
    Quantiles,
}

/// Counters and gauges that are basic.
const REPLIES: &str = "kube_canary_replies";
const UP: &str = "kube_canary_peer_up";

type Count = (&'static str, &'static str, fn(&Book) -> u64);
type Level = (&'static str, &'static str, &'static str, fn(&Entry, &Book) -> Option<f64>);

const COUNTS: [Count; 4] = [
    ("kube_canary_probes_sent", "Probes sent: replies, lost and in flight add up to it", Book::sent),
    (REPLIES, "Probes answered before their deadline", Book::replies),
    ("kube_canary_late", "Answers to probes that counted as lost already", Book::late),
    ("kube_canary_duplicates", "Answers to probes that were answered already", Book::duplicates),
];

/// The gauges that are absent if they are not known. `up` is absent before the first probe is decided, and for a peer
/// that went away. The others are absent before the first reply, or if the socket does not give the value.
const LEVELS: [Level; 4] = [
    ("kube_canary_in_flight", "Probes neither answered nor lost yet", "", |_, book| Some(book.in_flight().into())),
    (UP, "Whether the latest decided probe was answered", "", |entry, book| {
        book.up().filter(|_| entry.probed()).map(|up| up.into())
    }),
    (
        "kube_canary_rtt_jitter_seconds",
        "Mean deviation of successive round trips, as in RFC 3550",
        "seconds",
        |_, book| (book.replies() > 0).then(|| book.jitter_ns() / 1e9),
    ),
    ("kube_canary_reply_hop_limit", "Hops that the latest reply had left", "", |_, book| {
        book.hop_limit().map(f64::from)
    }),
];

/// Lines of one family.
struct Family<'a, 'b> {
    out: &'a mut Exposition<'b>,
    name: &'static str,
    digits: itoa::Buffer,
    number: String,
}

impl<'a, 'b> Family<'a, 'b> {
    fn new(out: &'a mut Exposition<'b>, (name, kind, unit, help): (&'static str, &str, &str, &str)) -> Self {
        // An exposition takes a line that begins with `#` as a whole or in pieces, and never fails.
        let _ = write!(out, "# HELP {name} {help}").and_then(|()| out.write_str("\n"));
        let _ = write!(out, "# TYPE {name} {kind}").and_then(|()| out.write_str("\n"));
        if !unit.is_empty() {
            let _ = write!(out, "# UNIT {name} {unit}").and_then(|()| out.write_str("\n"));
        }
        Family { out, name, digits: itoa::Buffer::new(), number: String::new() }
    }

    fn whole(&mut self, suffix: &str, labels: &str, last: &str, value: u64) {
        let number = self.digits.format(value);
        self.out.sample([self.name, suffix, labels, last, "} ", number, "\n"]);
    }

    fn fraction(&mut self, suffix: &str, labels: &str, last: &str, value: f64) {
        self.number.clear();
        let _ = write!(self.number, "{value}");
        self.out.sample([self.name, suffix, labels, last, "} ", &self.number, "\n"]);
    }
}

/// Writes the series of all peers.
pub(super) fn write(out: &mut Exposition, mesh: &Mesh, labels: &Labels, series: Series) {
    let is_wanted = |name| series != Series::Basic || [REPLIES, UP].contains(&name);
    for (name, help, value) in COUNTS.into_iter().filter(|(name, ..)| is_wanted(name)) {
        let mut family = Family::new(out, (name, "counter", "", help));
        for (_, _, book, labels) in labels.of(mesh) {
            family.whole("_total", labels, "", value(book));
        }
    }
    let mut family = Family::new(out, ("kube_canary_lost", "counter", "", "Probes lost, by reason"));
    for (_, _, book, labels) in labels.of(mesh) {
        for why in Loss::ALL {
            let last = match why {
                Loss::Timeout => ",reason=\"timeout\"",
                Loss::Send => ",reason=\"send_error\"",
                Loss::Unreachable => ",reason=\"unreachable\"",
            };
            family.whole("_total", labels, last, book.lost_for(why));
        }
    }
    for (name, help, unit, value) in LEVELS.into_iter().filter(|(name, ..)| is_wanted(name)) {
        let mut family = Family::new(out, (name, "gauge", unit, help));
        for (entry, _, book, labels) in labels.of(mesh) {
            if let Some(value) = value(entry, book) {
                family.fraction("", labels, "", value);
            }
        }
    }
    if series == Series::Basic {
        return latest_round_trips(out, mesh, labels);
    }
    round_trips(out, mesh, labels, series == Series::Quantiles);
    connections(out, mesh, labels);
}

/// Two quantiles of each peer, under the first of its protocols.
fn latest_round_trips(out: &mut Exposition, mesh: &Mesh, labels: &Labels) {
    let help = "Round-trip times by the first protocol; quantiles of the last 64 replies";
    let mut family = Family::new(out, (RTT, "summary", "seconds", help));
    for (entry, protocol, book, labels) in labels.of(mesh) {
        if entry.books.iter().position(Option::is_some) != Some(protocol as usize) {
            continue;
        }
        let latest = book.latest();
        for (quantile, last) in [QUANTILES[0], QUANTILES[2]] {
            let value = latest.quantile(quantile).map_or(f64::NAN, |nanos| nanos as f64 / 1e9);
            family.fraction("", labels, last, value);
        }
    }
}

/// Every reply has one connection time, if its protocol begins with a connection. For a TCP probe the connection is
/// already the round trip.
fn connections(out: &mut Exposition, mesh: &Mesh, labels: &Labels) {
    let mut books = labels.of(mesh).filter(|(_, protocol, ..)| protocol.connects_first()).peekable();
    if books.peek().is_none() {
        return;
    }
    let help = "How long the connections of answered HTTP probes took, which are part of their round trips";
    let mut family = Family::new(out, ("kube_canary_connect_seconds", "summary", "seconds", help));
    for (_, _, book, labels) in books {
        family.fraction("_sum", labels, "", book.connect_ns() as f64 / 1e9);
        family.whole("_count", labels, "", book.replies());
    }
}

fn round_trips(out: &mut Exposition, mesh: &Mesh, labels: &Labels, quantiles: bool) {
    let (kind, help) = match quantiles {
        true => ("summary", "Round-trip times of probes; quantiles of the last 64 replies"),
        false => ("histogram", "Round-trip times of probes"),
    };
    let mut family = Family::new(out, (RTT, kind, "seconds", help));
    // All books have the same bounds.
    let mut bounds: Vec<String> = Vec::new();
    for (_, _, book, labels) in labels.of(mesh) {
        let rtt = book.rtt();
        if let Some(native) = rtt.native().filter(|_| family.out.takes_native()) {
            family.out.native(labels, native, rtt.count(), rtt.sum_ns() as f64 / 1e9);
            continue;
        }
        if quantiles {
            let latest = book.latest();
            for (quantile, last) in QUANTILES {
                let value = latest.quantile(quantile).map_or(f64::NAN, |nanos| nanos as f64 / 1e9);
                family.fraction("", labels, last, value);
            }
        } else {
            if bounds.is_empty() {
                bounds.extend(rtt.bounds().nanos().iter().map(|bound| format!(",le=\"{}\"", *bound as f64 / 1e9)));
                bounds.push(",le=\"+Inf\"".into());
            }
            let mut below = 0;
            for (last, count) in bounds.iter().zip(rtt.counts()) {
                below += count;
                family.whole("_bucket", labels, last, below);
            }
        }
        family.fraction("_sum", labels, "", rtt.sum_ns() as f64 / 1e9);
        family.whole("_count", labels, "", rtt.count());
    }
}
