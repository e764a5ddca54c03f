//! The labels of the series of peers. In: the mesh. Out: a text for each book, `{peer_node="a",proto="icmp"`, with which the
//! labels of each of its series begin.
//!
//! Addresses change with each rollout, and a series that changes its labels is a new one in Prometheus. So the labels of a peer
//! are its node, and its family if that is IPv6. While a pod is replaced, its node has two addresses for a while: the series go
//! from the old address to the new one. If two present peers have the same name, addresses are labels.
//!
//! When the labels were formatted for each series, they took most of a scrape's time, mainly for addresses.

use std::fmt::Write;

use crate::book::Book;
use crate::mesh::{Entry, Mesh};
use crate::protocol::Protocol;

/// The labels of all books, in one text, whose buffer the next scrape uses again.
#[derive(Debug, Default)]
pub(super) struct Labels {
    text: String,
    ends: Vec<u32>,
    /// For each peer by its index in [`shown`]: whether it has series, and whether they have its address.
    told: Vec<Told>,
    /// The indices, sorted by name.
    by_name: Vec<u32>,
    with_addresses: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    ByName,
    ByAddress,
    /// No series: another peer now has its node's series.
    Not,
}

impl Labels {
    /// `with_addresses`: whether each label has the address, and not only where it is needed.
    pub(super) fn new(with_addresses: bool) -> Self {
        Labels { with_addresses, ..Labels::default() }
    }

    /// Reads the labels of the peers that have series now.
    pub(super) fn read(&mut self, mesh: &Mesh) {
        self.text.clear();
        self.ends.clear();
        self.tell(mesh);
        let told = std::mem::take(&mut self.told);
        for (entry, told, protocol, _) in books(mesh, &told) {
            self.text.push('{');
            // While its node is not known, a peer's label is its address, so that an alert can name it.
            match &*entry.peer.node {
                "" => drop(write!(self.text, "peer_node=\"{}\",", entry.peer.address)),
                node => self.label("peer_node", node),
            }
            if told == Told::ByAddress {
                // An address has no character to escape, and writing to a String cannot fail.
                let _ = write!(self.text, "peer_ip=\"{}\",", entry.peer.address);
            } else if entry.peer.address.is_ipv6() {
                self.label("family", "ipv6");
            }
            self.label("peer_zone", &entry.peer.zone);
            let _ = write!(self.text, "proto=\"{protocol}\"");
            self.ends.push(self.text.len() as u32);
        }
        self.told = told;
        // After a larger mesh, the buffers shrink to the size to which they would have grown for this mesh.
        self.text.shrink_to(2 * self.text.len());
        self.ends.shrink_to(2 * self.ends.len());
        self.told.shrink_to(2 * self.told.len());
        self.by_name.shrink_to(2 * self.by_name.len());
    }

    /// Decides which peers have series, and by which labels.
    fn tell(&mut self, mesh: &Mesh) {
        self.told.clear();
        self.told.extend(shown(mesh).map(|_| if self.with_addresses { Told::ByAddress } else { Told::ByName }));
        if self.with_addresses {
            return;
        }
        let peers: Vec<&Entry> = shown(mesh).collect();
        let key = |place: u32| {
            let peer = &peers[place as usize].peer;
            (&*peer.node, peer.address.is_ipv6())
        };
        self.by_name.clear();
        self.by_name.extend((0..peers.len() as u32).filter(|place| !peers[*place as usize].peer.node.is_empty()));
        self.by_name.sort_unstable_by(|one, other| key(*one).cmp(&key(*other)));
        for same in self.by_name.chunk_by(|one, other| key(*one) == key(*other)).filter(|same| same.len() > 1) {
            let here = same.iter().filter(|place| peers[**place as usize].gone_since.is_none()).count();
            // If all have gone, the series belong to the one that went last.
            let last = same
                .iter()
                .max_by_key(|place| (peers[**place as usize].gone_since, peers[**place as usize].peer.address));
            for place in same {
                let gone = peers[*place as usize].gone_since.is_some();
                self.told[*place as usize] = match (here, gone) {
                    (0, _) if Some(place) == last => Told::ByName,
                    (0, _) | (_, true) => Told::Not,
                    (1, false) => Told::ByName,
                    _ => Told::ByAddress,
                };
            }
        }
    }

    fn label(&mut self, name: &str, value: &str) {
        if value.is_empty() {
            return;
        }
        self.text.push_str(name);
        self.text.push_str("=\"");
        for character in value.chars() {
            match character {
                '\\' => self.text.push_str("\\\\"),
                '"' => self.text.push_str("\\\""),
                '\n' => self.text.push_str("\\n"),
                // No name of a node has control characters, and not every reader of the page accepts them.
                _ if character.is_control() => self.text.push('\u{fffd}'),
                _ => self.text.push(character),
            }
        }
        self.text.push_str("\",");
    }

    /// The books, each with its labels.
    pub(super) fn of<'a>(&'a self, mesh: &'a Mesh) -> impl Iterator<Item = (&'a Entry, Protocol, &'a Book, &'a str)> {
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        let ranges = begins.zip(&self.ends).map(|(from, to)| from as usize..*to as usize);
        let books = books(mesh, &self.told);
        books.zip(ranges).map(|((entry, _, protocol, book), range)| (entry, protocol, book, &self.text[range]))
    }
}

/// The peers with series. A peer that only other canaries probe has none; a peer that went away keeps them for the
/// grace period.
fn shown(mesh: &Mesh) -> impl Iterator<Item = &Entry> {
    mesh.entries().map(|(_, entry)| entry).filter(|entry| entry.chosen || entry.gone_since.is_some())
}

fn books<'a>(mesh: &'a Mesh, told: &'a [Told]) -> impl Iterator<Item = (&'a Entry, Told, Protocol, &'a Book)> {
    let told = shown(mesh).zip(told).filter(|(_, told)| **told != Told::Not);
    told.flat_map(|(entry, told)| {
        let books = Protocol::ALL.into_iter().zip(&entry.books);
        books.filter_map(move |(protocol, book)| Some((entry, *told, protocol, book.as_deref()?)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    use crate::histogram::Bounds;
    use crate::peer::Peer;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn of(mesh: &Mesh) -> Vec<String> {
        let mut labels = Labels::new(false);
        labels.read(mesh);
        let mut all: Vec<String> = labels.of(mesh).map(|(.., labels)| labels.to_string()).collect();
        all.sort();
        all
    }

    /// Every peer that is named has a probe.
    fn update(mesh: &mut Mesh, peers: &[(IpAddr, &str)], now: u64) {
        mesh.update("dns", peers.iter().map(|(address, node)| Peer::on(*address, node)).collect(), now);
        for (address, _) in peers {
            let (id, _) = mesh.at(*address).unwrap();
            mesh.book(id, Protocol::Icmp).unwrap().send(now);
        }
    }

    #[test]
    fn a_rollout_changes_no_label_and_doubles_no_series() {
        let mut mesh = Mesh::new(Bounds::default(), u64::MAX, 9, "a");
        update(&mut mesh, &[(address(1), "n1"), (address(2), "n2")], 0);
        let before = of(&mesh);
        assert_eq!(before, ["{peer_node=\"n1\",proto=\"icmp\"", "{peer_node=\"n2\",proto=\"icmp\""]);
        update(&mut mesh, &[(address(2), "n2")], 1);
        assert_eq!(of(&mesh), before, "it keeps its series while it is away");
        update(&mut mesh, &[(address(3), "n1"), (address(2), "n2")], 2);
        assert_eq!(of(&mesh), before, "the new pod of the node has them");
        update(&mut mesh, &[(address(2), "n2")], 3);
        assert_eq!(of(&mesh), before, "two of a node that are gone are one");
    }

    #[test]
    fn peers_of_one_name_have_their_addresses_and_families_are_told_apart() {
        let mut mesh = Mesh::new(Bounds::default(), u64::MAX, 9, "a");
        update(&mut mesh, &[(address(1), "n1"), ("fd00::1".parse().unwrap(), "n1")], 0);
        let six = "{peer_node=\"n1\",family=\"ipv6\",proto=\"icmp\"";
        assert_eq!(of(&mesh), [six, "{peer_node=\"n1\",proto=\"icmp\""]);
        update(&mut mesh, &[(address(1), "n1"), (address(2), "n1"), (address(3), "")], 0);
        let both = [1, 2].map(|last| format!("{{peer_node=\"n1\",peer_ip=\"10.0.0.{last}\",proto=\"icmp\""));
        assert_eq!(of(&mesh)[..1], ["{peer_node=\"10.0.0.3\",proto=\"icmp\""]);
        assert_eq!(of(&mesh)[1..], [six.to_string(), both[0].clone(), both[1].clone()], "{:?}", of(&mesh));
    }
}
