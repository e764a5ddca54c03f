//! One canary's row of the mesh. In: `/peers?brief` of that canary, or the own mesh. Out: a cell for each peer.

use std::borrow::Cow;
use std::net::IpAddr;

use serde::Deserialize;

use crate::mesh::{Entry, Mesh};

/// What one canary sees of one peer: four bytes for the picture of a mesh of 200 times 200.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sight {
    /// The loss of the latest decided probes.
    pub(super) loss_permille: u16,
    /// The median round trip of the latest replies; `None` if there was never one.
    pub(super) p50_us: Option<u32>,
}

impl Sight {
    /// From the first protocol with a recent answer, else from the first with a decided probe: if ICMP is refused, UDP may
    /// still work.
    pub(super) fn of(entry: &Entry) -> Option<Self> {
        let decided = || entry.books.iter().flatten().filter_map(|book| Some((book, book.recent_loss()?)));
        let (book, loss) = decided().find(|(_, loss)| *loss < 1.0).or_else(|| decided().next())?;
        let p50_us = book.latest().quantile(0.5).map(|nanos| u32::try_from((nanos + 500) / 1000).unwrap_or(u32::MAX));
        Some(Sight { loss_permille: (loss * 1000.0).round() as u16, p50_us })
    }
}

/// A row that another canary sent.
#[derive(Debug, Deserialize)]
pub(super) struct Brief<'a> {
    /// The node of the canary that answers.
    #[serde(borrow)]
    pub(super) node: Cow<'a, str>,
    /// Address and node of each peer, the loss in thousandths and the median in microseconds.
    #[serde(borrow)]
    pub(super) peers: Vec<(IpAddr, Cow<'a, str>, u16, Option<u32>)>,
}

impl Brief<'_> {
    /// The cells, with the address and node of each peer.
    pub(super) fn cells(&self) -> impl Iterator<Item = (IpAddr, &str, Sight)> {
        self.peers.iter().map(|(address, node, loss, p50_us)| {
            (*address, &**node, Sight { loss_permille: (*loss).min(1000), p50_us: *p50_us })
        })
    }
}

/// The row of this canary itself, without asking over the network.
pub(super) fn own(mesh: &Mesh) -> impl Iterator<Item = (IpAddr, &str, Sight)> {
    mesh.entries()
        .filter(|(_, entry)| entry.probed())
        .filter_map(|(_, entry)| Some((entry.peer.address, &*entry.peer.node, Sight::of(entry)?)))
}
