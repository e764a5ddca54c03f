//! One canary's row of the mesh. In: `/peers?brief` of that canary, or this canary's own mesh. Out: a cell for each peer.

use std::borrow::Cow;
use std::net::IpAddr;

use serde::{Deserialize, Serialize, Serializer};

use crate::mesh::{Entry, Mesh};
use crate::protocol::Protocol;

/// The loss of a protocol that has no decided probe.
const UNKNOWN: u16 = u16::MAX;

/// What one canary sees of one peer: a few bytes for the picture of a mesh of 200 times 200.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sight {
    /// The loss of the latest decided probes of each protocol, in thousandths.
    losses: [u16; Protocol::ALL.len()],
    /// The median round trip of the latest replies; `None` if nothing answers now.
    pub(super) p50_us: Option<u32>,
}

impl Sight {
    /// The sight, from the books of all protocols. `None` if none has a decided probe. Of the network's protocols, the slower one decides
    /// the round trip. A web server may take its time, so HTTP counts only if no other protocol answers.
    pub(super) fn of(entry: &Entry) -> Option<Self> {
        let mut losses = [UNKNOWN; Protocol::ALL.len()];
        let mut medians = [None; Protocol::ALL.len()];
        for protocol in Protocol::ALL {
            let Some(book) = &entry.books[protocol as usize] else { continue };
            let Some(loss) = book.recent_loss() else { continue };
            losses[protocol as usize] = (loss * 1000.0).round() as u16;
            let median = book.latest().quantile(0.5).filter(|_| loss < 1.0);
            medians[protocol as usize] = median.map(|nanos| u32::try_from((nanos + 500) / 1000).unwrap_or(u32::MAX));
        }
        let of = |all: &[Protocol]| all.iter().filter_map(|protocol| medians[*protocol as usize]).max();
        let p50_us = of(&[Protocol::Icmp, Protocol::Udp]).or(of(&[Protocol::Tcp])).or(of(&[Protocol::Http]));
        Some(Sight { losses, p50_us }).filter(|sight| sight.known().next().is_some())
    }

    /// A sight by one protocol.
    #[cfg(test)]
    pub(super) fn by(protocol: Protocol, loss_permille: u16, p50_us: Option<u32>) -> Self {
        let mut losses = [UNKNOWN; Protocol::ALL.len()];
        losses[protocol as usize] = loss_permille;
        Sight { losses, p50_us }
    }

    /// The same, with the loss of another protocol.
    #[cfg(test)]
    pub(super) fn and(mut self, protocol: Protocol, loss_permille: u16) -> Self {
        self.losses[protocol as usize] = loss_permille;
        self
    }

    fn known(&self) -> impl Iterator<Item = (Protocol, u16)> {
        Protocol::ALL.into_iter().zip(self.losses).filter(|(_, loss)| *loss != UNKNOWN)
    }

    /// The loss by the worst protocol.
    pub(super) fn loss_permille(&self) -> u16 {
        self.known().map(|(_, loss)| loss).max().unwrap_or(0)
    }

    /// Whether no protocol answers.
    pub(super) fn is_down(&self) -> bool {
        self.known().all(|(_, loss)| loss >= 1000)
    }

    /// The protocols that lose at least this much, one bit each. None if all do, because then the protocol is not the cause.
    pub(super) fn protocols_from(&self, permille: u16) -> u8 {
        let bad = |(_, loss): &(Protocol, u16)| *loss >= permille;
        let bits = self.known().filter(bad).fold(0, |bits, (protocol, _)| bits | 1 << protocol as u8);
        if self.known().all(|one| bad(&one)) { 0 } else { bits }
    }
}

/// In the form that the page reads: the loss by the worst protocol in thousandths, the median in microseconds, and the names of the
/// protocols that lose, if others lose nothing.
impl Serialize for Sight {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.loss_permille(), self.p50_us, names(self.protocols_from(1))).serialize(serializer)
    }
}

/// The names of protocols, a bit each: `udp, tcp and http`.
pub(super) fn names(protocols: u8) -> String {
    let named = Protocol::ALL.into_iter().filter(|protocol| protocols >> *protocol as u8 & 1 == 1);
    let names: Vec<&str> = named.map(Protocol::name).collect();
    match names.as_slice() {
        [] => String::new(),
        [one] => (*one).into(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}

/// The losses in the form in which they are sent: in the order of the protocols, without unknown ones at the end.
pub(super) fn sent(sight: &Sight) -> Vec<Option<u16>> {
    let mut losses: Vec<Option<u16>> =
        sight.losses.iter().map(|loss| Some(*loss).filter(|loss| *loss != UNKNOWN)).collect();
    while losses.last() == Some(&None) {
        losses.pop();
    }
    losses
}

/// Address and node of a peer, its losses by protocol in thousandths, and the median in microseconds.
type Cell<'a> = (IpAddr, Cow<'a, str>, Vec<Option<u16>>, Option<u32>);

/// A row that another canary sent.
#[derive(Debug, Deserialize)]
pub(super) struct Brief<'a> {
    /// The node of the canary that answers.
    #[serde(borrow)]
    pub(super) node: Cow<'a, str>,
    /// Its peers.
    #[serde(borrow)]
    pub(super) peers: Vec<Cell<'a>>,
}

impl Brief<'_> {
    /// The cells, with the address and node of each peer.
    pub(super) fn cells(&self) -> impl Iterator<Item = (IpAddr, &str, Sight)> {
        let sight = |(_, _, sent, p50_us): &Cell| {
            let mut losses = [UNKNOWN; Protocol::ALL.len()];
            for (loss, sent) in losses.iter_mut().zip(sent) {
                *loss = sent.map_or(UNKNOWN, |loss| loss.min(1000));
            }
            Sight { losses, p50_us: *p50_us }
        };
        let cells = self.peers.iter().map(move |one| (one.0, &*one.1, sight(one)));
        // A cell without a loss has no decided probe yet.
        cells.filter(|(.., sight)| sight.known().next().is_some())
    }
}

/// The row of this canary itself, without a request over the network.
pub(super) fn own(mesh: &Mesh) -> impl Iterator<Item = (IpAddr, &str, Sight)> {
    mesh.entries()
        .filter(|(_, entry)| entry.probed())
        .filter_map(|(_, entry)| Some((entry.peer.address, &*entry.peer.node, Sight::of(entry)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_is_read_again() {
        let sight = Sight::by(Protocol::Icmp, 0, Some(150)).and(Protocol::Tcp, 1000);
        let text = serde_json::to_string(&("10.0.0.1", "b", sent(&sight), sight.p50_us)).unwrap();
        assert_eq!(text, r#"["10.0.0.1","b",[0,null,1000],150]"#);
        let row = format!(r#"{{"node":"a","peers":[{text},["10.0.0.2","c",[7000,1,2,3,4,5],null]]}}"#);
        let brief: Brief = serde_json::from_str(&row).unwrap();
        let cells: Vec<Sight> = brief.cells().map(|(.., cell)| cell).collect();
        assert_eq!(cells[0], sight);
        assert_eq!((cells[1].loss_permille(), cells[1].known().count()), (1000, 4), "a canary that lies");
    }

    #[test]
    fn the_worst_protocol_counts_and_is_named_where_others_do_better() {
        let one = Sight::by(Protocol::Icmp, 1000, None);
        assert!(one.is_down() && one.protocols_from(20) == 0);
        let udp = Sight::by(Protocol::Icmp, 0, Some(150)).and(Protocol::Udp, 1000);
        assert_eq!((udp.is_down(), udp.loss_permille()), (false, 1000));
        assert_eq!(names(udp.protocols_from(20)), "udp");
        let three = udp.and(Protocol::Tcp, 1000).and(Protocol::Http, 20);
        assert_eq!(names(three.protocols_from(20)), "udp, tcp and http");
        assert_eq!(serde_json::to_string(&udp).unwrap(), r#"[1000,150,"udp"]"#);
    }
}
