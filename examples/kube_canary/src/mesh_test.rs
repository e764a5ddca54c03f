//! Properties of a mesh while peers come and go.

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
fn after_many_peers_have_gone_the_tables_are_as_small_as_before_and_no_old_number_names_a_new_peer() {
    let mut mesh = mesh(usize::MAX, "a");
    let address = |at: u32| IpAddr::from(std::net::Ipv4Addr::from((10 << 24) + at));
    let many = |count: u32| (0..count).map(|at| Peer::at(address(at))).collect();
    mesh.update("dns", many(4000), 0);
    let old: Vec<PeerId> = mesh.entries().map(|(id, _)| id).collect();
    mesh.update("dns", many(0), 1);
    assert_eq!(mesh.forget(11), 4000);
    assert_eq!((mesh.places(), mesh.slots.capacity()), (0, 0));
    assert_eq!(mesh.by_address.capacity(), 0);
    mesh.update("dns", many(4000), 12);
    assert!(old.iter().all(|id| mesh.get(*id).is_none()));
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
fn another_pod_on_an_old_address_has_its_own_name_and_books() {
    let mut mesh = mesh(usize::MAX, "a");
    mesh.update("dns", peers(1..3), 0);
    mesh.name(address(1), "node-1");
    let (id, _) = mesh.at(address(1)).unwrap();
    mesh.book(id, Protocol::Icmp).unwrap().send(0);
    mesh.name(address(1), "node-1");
    assert_eq!(mesh.book(id, Protocol::Icmp).unwrap().sent(), 1, "the same one");
    let version = mesh.version();
    mesh.name(address(1), "node-2");
    let (new, entry) = mesh.at(address(1)).unwrap();
    assert_eq!((&*entry.peer.node, entry.books.iter().flatten().count()), ("node-2", 0));
    assert!(mesh.book(id, Protocol::Icmp).is_none(), "answers to the old one's probes are nobody's");
    assert!(new.generation != id.generation && mesh.version() != version);
    // A source that knows names takes precedence here too.
    mesh.update("kubernetes", vec![Peer::on(address(1), "node-3")], 0);
    mesh.book(mesh.at(address(1)).unwrap().0, Protocol::Icmp).unwrap().send(0);
    mesh.name(address(1), "node-4");
    mesh.update("kubernetes", vec![Peer::on(address(1), "node-5")], 0);
    let (_, entry) = mesh.at(address(1)).unwrap();
    assert_eq!((&*entry.peer.node, entry.books.iter().flatten().count()), ("node-5", 0));
}

#[test]
fn a_name_is_doubted_once_its_peer_was_away() {
    let mut mesh = mesh(usize::MAX, "a");
    mesh.update("dns", peers(1..3), 0);
    mesh.name(address(1), "node-1");
    mesh.name(address(2), "node-2");
    assert!(mesh.to_be_confirmed(0..0).is_empty());
    mesh.update("dns", peers(2..3), 1);
    mesh.update("dns", peers(1..3), 2);
    assert_eq!(mesh.to_be_confirmed(0..0), [address(1)]);
    assert_eq!(mesh.to_be_confirmed(0..2).len(), 2);
    mesh.name(address(1), "node-1");
    assert!(mesh.to_be_confirmed(0..0).is_empty());
}

#[test]
fn few_of_many_are_spread_over_all_and_most_pairs_are_probed_both_ways() {
    let (mut probed_by, mut pairs) = (HashMap::new(), std::collections::BTreeSet::new());
    for canary in 0..100 {
        let mut mesh = mesh(10, &address(canary).to_string());
        mesh.update("flags", [peers(0..canary), peers(canary + 1..100)].concat(), 0);
        let chosen: Vec<IpAddr> =
            mesh.entries().filter(|(_, entry)| entry.probed()).map(|(_, entry)| entry.peer.address).collect();
        assert_eq!(chosen.len(), 10);
        for peer in chosen {
            *probed_by.entry(peer).or_insert(0) += 1;
            pairs.insert((address(canary), peer));
        }
    }
    assert_eq!(probed_by.len(), 100);
    let (fewest, most) = (probed_by.values().min().unwrap(), probed_by.values().max().unwrap());
    assert!(*fewest >= 4 && *most <= 20, "{probed_by:?}");
    let both_ways = pairs.iter().filter(|(from, to)| pairs.contains(&(*to, *from))).count();
    assert!(both_ways >= 700, "{both_ways} of 1,000; by chance 100 would be");
}

#[test]
fn a_peer_that_goes_moves_one_choice() {
    let chosen = |peers: Vec<Peer>| {
        let mut mesh = mesh(10, "10.0.0.200");
        mesh.update("flags", peers, 0);
        let chosen = mesh.entries().filter(|(_, entry)| entry.probed()).map(|(_, entry)| entry.peer.address);
        chosen.collect::<std::collections::BTreeSet<_>>()
    };
    let before = chosen(peers(0..100));
    for gone in 0..100 {
        let after = chosen([peers(0..gone), peers(gone + 1..100)].concat());
        let left = before.difference(&after).count();
        assert_eq!(left, usize::from(before.contains(&address(gone))), "without {gone}");
    }
}
