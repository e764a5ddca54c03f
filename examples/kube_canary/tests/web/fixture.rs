//! A server with a mesh that no prober fills. In: how many peers. Out: its address.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use kube_canary::histogram::Bounds;
use kube_canary::mesh::{Mesh, PeerId, Shared};
use kube_canary::options::Options;
use kube_canary::peer::Peer;
use kube_canary::protocol::{Loss, Protocol};
use kube_canary::web::{Facts, Server};

/// Options with which a canary shows all series and addresses, with a free port.
pub fn options() -> Options {
    Options {
        node: "node-000".into(),
        interval: Duration::from_millis(1),
        timeout: Duration::from_millis(900),
        protocols: None,
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        peer_port: 1,
        udp_port: 0,
        http_threads: 0,
        threads_give_back: false,
        peers: Vec::new(),
        peer_hosts: Vec::new(),
        targets: Vec::new(),
        target_interval: Duration::from_secs(15),
        peers_file: None,
        peers_dns: None,
        kubernetes: None,
        grace: Duration::from_secs(60),
        most_probed: usize::MAX,
        bounds: Bounds::default(),
        all_series: true,
        quantiles: false,
        native: false,
        label_addresses: true,
        probe_self: false,
        own_addresses: Vec::new(),
    }
}

/// The address of a peer of the fixture.
pub fn address(peer: usize) -> IpAddr {
    Ipv4Addr::new(10, 0, (peer / 250) as u8, (peer % 250 + 1) as u8).into()
}

/// A mesh of this many peers, each with two minutes of probes.
pub fn mesh(peers: usize) -> Shared {
    let peer = |at: usize| Peer {
        zone: ["zone-a", "zone-b", "zone-c"][at % 3].into(),
        cordoned: at % 50 == 49,
        ..Peer::on(address(at), &format!("node-{at:03}"))
    };
    filled((0..peers).map(peer).collect(), |_| 10)
}

/// A mesh of these peers. `loss_permille` is the share of a peer's probes that are lost, in thousandths.
pub fn filled(peers: Vec<Peer>, loss_permille: impl Fn(&Peer) -> u64) -> Shared {
    let mut mesh = Mesh::new(Bounds::default(), 60_000_000_000, usize::MAX, "node-000");
    mesh.update("flags", peers.clone(), 0);
    for peer in peers {
        let (id, _) = mesh.at(peer.address).expect("the peer that was just added");
        let book = mesh.book(id, Protocol::Icmp).expect("its book");
        let far = peer.zone.bytes().map(u64::from).sum::<u64>() % 3;
        let mut rng = allocanary_sys::rng::Rng::new(peer.address.to_string().bytes().map(u64::from).sum());
        for second in 0..120 {
            let sequence = book.send(second);
            if rng.next() % 1000 < loss_permille(&peer) {
                book.lost(sequence, if rng.next().is_multiple_of(10) { Loss::Unreachable } else { Loss::Timeout });
            } else {
                book.answer(sequence, 60_000 + far * 400_000 + rng.next() % (20_000 + far * 300_000), Some(63));
            }
        }
        book.send(120);
    }
    Shared::new(mesh)
}

/// A server on a separate thread, for as long as the test runs.
pub fn serve(options: &Options, mesh: Shared) -> SocketAddr {
    let server = Server::bind(options, mesh, Facts::of_this_build()).expect("a free port");
    let address = server.address().expect("a bound socket has an address");
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(server.run())
    });
    address
}

/// A mesh of one peer, with the books that `fill` has made.
pub fn one_peer(fill: impl FnOnce(&mut Mesh, PeerId)) -> Shared {
    let mut mesh = Mesh::new(Bounds::default(), 0, 9, "a");
    mesh.update("flags", vec![Peer::on([10, 0, 0, 1].into(), "b")], 0);
    let (id, _) = mesh.at([10, 0, 0, 1].into()).unwrap();
    fill(&mut mesh, id);
    Shared::new(mesh)
}
