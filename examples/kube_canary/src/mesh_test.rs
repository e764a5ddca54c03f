//! What must hold of a mesh as peers come and go.

use super::*;

fn address(last: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, last])
}

fn mesh(most: usize, own: &str) -> Mesh {
    Mesh::new(Bounds::default(), 10, most, own)
}

fn peers(last: std::ops::Range<u8>) -> Vec<Peer> {
    last.map(|last| Peer::at(address(last))).collect()
}

#[test]
fn a_peer_that_goes_keeps_its_books_through_the_grace_period() {
    let mut mesh = mesh(usize::MAX, "a");
    mesh.update("dns", peers(1..3), 0);
    let (id, _) = mesh.at(address(1)).unwrap();
    mesh.book(id, Protocol::Icmp).unwrap().send(0);
    mesh.update("dns", peers(2..3), 5);
    assert!(!mesh.at(address(1)).unwrap().1.probed());
    mesh.forget(14);
    mesh.update("dns", peers(1..3), 14);
    assert_eq!(mesh.book(id, Protocol::Icmp).unwrap().sent(), 1, "back in time, with its book");
    mesh.update("dns", peers(2..3), 20);
    mesh.forget(29);
    assert!(mesh.at(address(1)).is_some());
    mesh.forget(30);
    assert!(mesh.at(address(1)).is_none() && mesh.book(id, Protocol::Icmp).is_none());
    mesh.update("dns", peers(2..4), 31);
    let (other, _) = mesh.at(address(3)).unwrap();
    assert_eq!(other.slot, id.slot);
    assert!(mesh.get(id).is_none(), "the old number does not name the new peer");
}

#[test]
fn sources_add_up_and_names_win() {
    let mut mesh = mesh(usize::MAX, "a");
    mesh.update("flags", peers(1..2), 0);
    mesh.update("kubernetes", vec![Peer::on(address(1), "node-1"), Peer::on(address(2), "node-2")], 0);
    assert_eq!(&*mesh.at(address(1)).unwrap().1.peer.node, "node-1");
    mesh.update("kubernetes", vec![], 0);
    assert!(mesh.at(address(1)).unwrap().1.probed());
    assert!(!mesh.at(address(2)).unwrap().1.probed());
    mesh.name(address(1), "itself");
    assert_eq!(&*mesh.at(address(1)).unwrap().1.peer.node, "node-1", "a name is kept");
}

#[test]
fn a_bounded_ring_spreads_over_all_peers() {
    let mut probed_by = HashMap::new();
    for canary in 0..100 {
        let mut mesh = mesh(10, &address(canary).to_string());
        mesh.update("flags", [peers(0..canary), peers(canary + 1..100)].concat(), 0);
        let chosen: Vec<IpAddr> =
            mesh.entries().filter(|(_, entry)| entry.probed()).map(|(_, entry)| entry.peer.address).collect();
        assert_eq!(chosen.len(), 10);
        for peer in chosen {
            *probed_by.entry(peer).or_insert(0) += 1;
        }
    }
    assert_eq!(probed_by.len(), 100);
    assert!(probed_by.values().all(|count| *count == 10), "{probed_by:?}");
}
