//! This canary's data about its peers. In: the mesh. Out: JSON: at `/peers` for people and programs, and at `/peers?brief` for other
//! canaries.

use std::io::Write;

use serde::Serialize;
use serde::ser::{SerializeMap, SerializeSeq, Serializer};

use super::brief::{Sight, sent};
use super::checks::{Check, checks};
use super::facts::Facts;
use crate::book::Book;
use crate::mesh::{Entry, Mesh};
use crate::protocol::{Loss, Protocol};

/// The canary that answers.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Identity {
    /// The node that it runs on.
    pub(super) node: String,
    /// Its build.
    #[serde(flatten)]
    pub(super) facts: Facts,
    /// The time between two probes of a peer.
    pub(super) interval_seconds: f64,
}

#[derive(Serialize)]
struct Page<'a> {
    #[serde(flatten)]
    identity: &'a Identity,
    uptime_seconds: u64,
    resident_bytes: Option<u64>,
    ready: bool,
    /// Why it is not ready.
    problem: Option<String>,
    /// The sources of peers and the canary's own problems, in words.
    checks: Vec<Check>,
    sources: Sources<'a>,
    peers: Peers<'a>,
}

struct Sources<'a>(&'a Mesh);

#[derive(Serialize)]
struct Source<'a> {
    succeeded: u64,
    failed: u64,
    last_success: Option<u64>,
    problem: Option<&'a str>,
}

impl Serialize for Sources<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.tallies.sources.iter().map(|(name, tally)| {
            let problem = tally.problem.as_deref();
            let (succeeded, failed) = (tally.succeeded, tally.failed);
            (name, Source { succeeded, failed, last_success: tally.last_success, problem })
        }))
    }
}

struct Peers<'a>(&'a Mesh);

impl Serialize for Peers<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.entries().map(|(_, entry)| Peer(entry)))
    }
}

struct Peer<'a>(&'a Entry);

impl Serialize for Peer<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Shown<'a> {
            #[serde(flatten)]
            peer: &'a crate::peer::Peer,
            gone: bool,
            probed: bool,
            up: Option<bool>,
            protocols: Protocols<'a>,
        }
        let Peer(entry) = self;
        let (gone, probed, up) = (entry.gone_since.is_some(), entry.probed(), entry.up());
        Shown { peer: &entry.peer, gone, probed, up, protocols: Protocols(entry) }.serialize(serializer)
    }
}

struct Protocols<'a>(&'a Entry);

impl Serialize for Protocols<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (protocol, book) in Protocol::ALL.into_iter().zip(&self.0.books) {
            if let Some(book) = book {
                map.serialize_entry(protocol.name(), &Shown::of(book))?;
            }
        }
        map.end()
    }
}

#[derive(Serialize)]
struct Shown {
    up: Option<bool>,
    /// The share of lost probes among the latest decided ones, at most 64.
    recent_loss: Option<f64>,
    /// Those probes, the latest last: `.` means answered, and `x` means lost.
    recent: String,
    /// The median of the latest replies, at most 64. The next field is of the same replies.
    p50_seconds: Option<f64>,
    p99_seconds: Option<f64>,
    last_rtt_seconds: Option<f64>,
    jitter_seconds: Option<f64>,
    hop_limit: Option<u8>,
    sent: u64,
    replies: u64,
    lost: Lost,
    in_flight: u32,
    late: u64,
    duplicates: u64,
}

#[derive(Serialize)]
struct Lost {
    timeout: u64,
    send_error: u64,
    unreachable: u64,
}

impl Shown {
    fn of(book: &Book) -> Self {
        let seconds = |nanos: u64| nanos as f64 / 1e9;
        let answered = book.replies() > 0;
        let latest = book.latest();
        Shown {
            up: book.up(),
            recent_loss: book.recent_loss(),
            recent: book.recent().map(|answered| if answered { '.' } else { 'x' }).collect(),
            p50_seconds: latest.quantile(0.5).map(seconds),
            p99_seconds: latest.quantile(0.99).map(seconds),
            last_rtt_seconds: answered.then(|| seconds(book.last_rtt_ns())),
            jitter_seconds: answered.then(|| book.jitter_ns() / 1e9),
            hop_limit: book.hop_limit(),
            sent: book.sent(),
            replies: book.replies(),
            lost: Lost {
                timeout: book.lost_for(Loss::Timeout),
                send_error: book.lost_for(Loss::Send),
                unreachable: book.lost_for(Loss::Unreachable),
            },
            in_flight: book.in_flight(),
            late: book.late(),
            duplicates: book.duplicates(),
        }
    }
}

/// Writes `/peers`. `ready` has the reason if this canary is not ready.
pub(super) fn peers(
    out: impl Write,
    mesh: &Mesh,
    identity: &Identity,
    uptime_seconds: u64,
    ready: Result<(), String>,
) -> serde_json::Result<()> {
    let resident_bytes = allocanary_sys::proc::ProcStatus::own().ok().and_then(|status| status.resident);
    let (ready, problem) = (ready.is_ok(), ready.err());
    let (sources, peers, checks) = (Sources(mesh), Peers(mesh), checks(mesh));
    serde_json::to_writer(
        out,
        &Page { identity, uptime_seconds, resident_bytes, ready, problem, checks, sources, peers },
    )
}

/// Writes `/peers?brief`: what [`super::brief::Brief`] reads.
pub(super) fn brief(out: impl Write, mesh: &Mesh, identity: &Identity) -> serde_json::Result<()> {
    struct Cells<'a>(&'a Mesh);
    impl Serialize for Cells<'_> {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let mut cells = serializer.serialize_seq(None)?;
            for (_, entry) in self.0.entries().filter(|(_, entry)| entry.probed()) {
                if let Some(cell) = Sight::of(entry) {
                    cells.serialize_element(&(entry.peer.address, &*entry.peer.node, sent(&cell), cell.p50_us))?;
                }
            }
            cells.end()
        }
    }
    #[derive(Serialize)]
    struct Brief<'a> {
        node: &'a str,
        peers: Cells<'a>,
    }
    serde_json::to_writer(out, &Brief { node: &identity.node, peers: Cells(mesh) })
}
