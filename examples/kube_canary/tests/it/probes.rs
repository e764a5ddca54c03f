//! Probers on loopback: each probe is answered, none is lost, and forged packets change nothing.

use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use allocanary_testing::ports::free_port;
use kube_canary::mesh::Shared;
use kube_canary::options::Options;
use kube_canary::peer::Peer;
use kube_canary::protocol::{Loss, Protocol};
use kube_canary::tallies::Refused;
use socket2::{Domain, Socket, Type};

use crate::support::{Sum, address, loopback, mesh, options, probe, server, server_that_says, sum};

const SPAN: Duration = Duration::from_secs(3);

fn run(options: &Options) -> Option<(Sum, Shared)> {
    let shared = mesh(options);
    let protocol = options.protocols.as_ref().unwrap()[0];
    probe(options, &shared, async || tokio::time::sleep(SPAN).await)?;
    Some((sum(&shared, protocol), shared))
}

fn none_is_lost(protocol: Protocol, peers: u32, interval: Duration) {
    let Some((sum, shared)) = run(&options(loopback(peers), protocol, interval)) else { return };
    assert_eq!((sum.lost, sum.late, sum.duplicates), (0, 0, 0), "{sum:?}");
    // On a busy machine the prober skips rounds. So this only checks that no peer is probed more than once an interval. The
    // tests of the schedule have their own clock, and check that no peer is probed less.
    assert!(sum.most <= SPAN.as_nanos().div_ceil(interval.as_nanos()) as u64 + 1, "{sum:?}");
    assert!(sum.replies > 0);
    assert_eq!(shared.lock().tallies.socket_drops, 0);
}

#[test]
fn icmp_to_8_peers_loses_nothing() {
    none_is_lost(Protocol::Icmp, 8, Duration::from_millis(200));
}

#[test]
fn icmp_to_100_peers_loses_nothing() {
    none_is_lost(Protocol::Icmp, 100, Duration::from_millis(200));
}

#[test]
fn icmp_to_1000_peers_loses_nothing() {
    none_is_lost(Protocol::Icmp, 1000, Duration::from_secs(1));
}

#[test]
fn udp_echo_to_100_peers_loses_nothing() {
    none_is_lost(Protocol::Udp, 100, Duration::from_millis(250));
}

#[test]
fn ipv6_answers_too_where_the_host_has_it() {
    if UdpSocket::bind("[::1]:0").is_err() {
        allocanary_testing::skipped::skipped("this host has no ::1");
        return;
    }
    for protocol in [Protocol::Icmp, Protocol::Udp] {
        let peers = vec![Peer::at(address("::1")), Peer::at(address("127.0.0.1"))];
        let Some((sum, shared)) = run(&options(peers, protocol, Duration::from_millis(200))) else { return };
        assert_eq!((sum.books, sum.lost), (2, 0), "{protocol}: {sum:?}");
        let mesh = shared.lock();
        let book = mesh.at(address("::1")).unwrap().1.books[protocol as usize].as_ref().unwrap();
        assert!(book.replies() > 0 && book.hop_limit() == Some(64), "{book:?}");
    }
}

#[test]
fn a_closed_port_is_unreachable_at_once() {
    let mut options = options(loopback(2), Protocol::Tcp, Duration::from_millis(200));
    options.peer_port = free_port();
    let (sum, shared) = run(&options).unwrap();
    assert!(sum.lost > 0 && sum.replies == 0, "{sum:?}");
    let mesh = shared.lock();
    let book = mesh.at(address("127.0.1.1")).unwrap().1.books[Protocol::Tcp as usize].as_ref().unwrap();
    assert_eq!(book.lost_for(Loss::Unreachable), book.lost_in_all());
}

#[test]
fn an_address_without_a_route_is_no_answer_and_harms_no_other_peer() {
    // An address of class E: no host routes it, and many kernels refuse to send to it.
    let peers = vec![Peer::at(address("240.0.0.1")), Peer::at(address("127.0.0.1"))];
    let options = options(peers, Protocol::Udp, Duration::from_millis(200));
    let (_, shared) = run(&options).unwrap();
    let mesh = shared.lock();
    let book = |peer| mesh.at(address(peer)).unwrap().1.books[Protocol::Udp as usize].as_ref().unwrap();
    assert_eq!(book("240.0.0.1").replies(), 0);
    assert!(book("240.0.0.1").lost_in_all() > 0);
    assert_eq!(book("127.0.0.1").lost_in_all(), 0);
}

#[test]
fn tcp_and_http_probes_are_answered_by_a_server() {
    for protocol in [Protocol::Tcp, Protocol::Http] {
        let mut options = options(loopback(20), protocol, Duration::from_millis(250));
        options.peer_port = server(Duration::ZERO);
        let (sum, _) = run(&options).unwrap();
        assert_eq!((sum.books, sum.lost, sum.duplicates), (20, 0, 0), "{protocol}: {sum:?}");
        assert!(sum.replies > 0);
    }
}

#[test]
fn an_answer_that_is_no_success_is_a_loss() {
    let mut options = options(loopback(2), Protocol::Http, Duration::from_millis(200));
    options.peer_port = server_that_says("503 Service Unavailable", Duration::ZERO);
    let (sum, shared) = run(&options).unwrap();
    assert!(sum.lost > 0 && sum.replies == 0, "{sum:?}");
    let mesh = shared.lock();
    let book = mesh.at(address("127.0.1.1")).unwrap().1.books[Protocol::Http as usize].as_ref().unwrap();
    assert_eq!(book.lost_for(Loss::Unreachable), book.lost_in_all());
}

#[test]
fn a_stop_of_the_process_loses_nothing() {
    for protocol in [Protocol::Icmp, Protocol::Tcp, Protocol::Http] {
        let mut options = options(loopback(50), protocol, Duration::from_millis(200));
        options.peer_port = server(Duration::ZERO);
        let shared = mesh(&options);
        let stopped = probe(&options, &shared, async || {
            tokio::time::sleep(Duration::from_secs(1)).await;
            // The same effect as SIGSTOP: the only thread does nothing for longer than the timeout, while answers
            // arrive.
            std::thread::sleep(Duration::from_secs(3));
            let before = sum(&shared, protocol);
            tokio::time::sleep(Duration::from_secs(1)).await;
            before
        });
        let Some(before) = stopped else { continue };
        let after = sum(&shared, protocol);
        assert_eq!((after.lost, after.late), (0, 0), "{protocol}: {after:?}");
        assert!(after.replies > before.replies, "{protocol}: {before:?} {after:?}");
    }
}

/// A socket that receives all packets of a protocol on this host. Only root may open it.
fn raw(number: socket2::Protocol) -> Option<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::RAW, Some(number)).ok()?;
    socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    Some(socket)
}

/// The next packet from `source` for which `wanted` returns true, without its IPv4 header. Other tests probe at the
/// same time.
fn sniff(socket: &Socket, source: Ipv4Addr, wanted: impl Fn(&[u8]) -> bool) -> Option<Vec<u8>> {
    let mut bytes = [0; 256];
    (0..50_000).find_map(|_| {
        let length = (&*socket).read(&mut bytes).ok()?;
        (bytes[12..16] == source.octets() && wanted(&bytes[20..length])).then(|| bytes[20..length].to_vec())
    })
}

/// An address of this host that no other process of these tests probes, because the socket would receive its packets
/// too.
fn own(last: u8) -> Ipv4Addr {
    let [.., high, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, high | 64, low, last)
}

fn has_probe(packet: &[u8]) -> bool {
    packet.len() == 40 && packet[8..12] == *b"kcan"
}

/// The byte of a true answer that is changed to forge one: in its magic, nonce, slot and generation.
const FORGERIES: [usize; 4] = [8, 8 + 8, 8 + 19, 8 + 23];

#[test]
fn forged_udp_answers_are_refused_and_counted() {
    let Some(sniffer) = raw(socket2::Protocol::UDP) else {
        allocanary_testing::skipped::skipped("raw sockets are not permitted");
        return;
    };
    let peer = own(71);
    let options = options(vec![Peer::at(peer.into())], Protocol::Udp, Duration::from_millis(200));
    let port = options.udp_port;
    let shared = mesh(&options);
    let forger = std::thread::spawn(move || {
        // A reply on its way back, from the echo's port to the prober's.
        let back = |packet: &[u8]| has_probe(packet) && packet[..2] == port.to_be_bytes() && packet[13] == 2;
        let reply = (0..20).find_map(|_| sniff(&sniffer, peer, back)).unwrap();
        let to = u16::from_be_bytes([reply[2], reply[3]]);
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let send = |bytes: &[u8]| socket.send_to(bytes, ("127.0.0.1", to)).unwrap();
        send(&reply[8..]); // a true answer from another port
        send(&reply[8..20]); // too short
        send(&[0; 1000]); // too long
        let mut forged = reply;
        forged[8] ^= 0x40;
        send(&forged[8..]); // of another form
    });
    probe(&options, &shared, async || tokio::time::sleep(SPAN).await);
    forger.join().unwrap();
    let sum = sum(&shared, Protocol::Udp);
    assert_eq!((sum.lost, sum.late, sum.duplicates), (0, 0, 0), "{sum:?}");
    let refused = shared.lock().tallies.refused;
    assert_eq!((refused[Refused::WrongSource as usize], refused[Refused::Malformed as usize]), (1, 3), "{refused:?}");
}

#[test]
fn forged_icmp_answers_are_refused_and_counted() {
    let Some(sniffer) = raw(socket2::Protocol::ICMPV4) else {
        allocanary_testing::skipped::skipped("raw sockets are not permitted");
        return;
    };
    let (peer, stranger) = (own(72), own(73));
    let options = options(vec![Peer::at(peer.into())], Protocol::Icmp, Duration::from_millis(200));
    let shared = mesh(&options);
    let forger = std::thread::spawn(move || {
        let back = |packet: &[u8]| has_probe(packet) && packet[0] == 0;
        let Some(reply) = (0..20).find_map(|_| sniff(&sniffer, peer, back)) else { return };
        let send = |source: Ipv4Addr, bytes: &[u8]| {
            let socket = raw(socket2::Protocol::ICMPV4).unwrap();
            socket.bind(&SocketAddr::new(source.into(), 0).into()).unwrap();
            socket.send_to(bytes, &SocketAddr::new(address("127.0.0.1"), 0).into()).unwrap();
        };
        for at in FORGERIES {
            let mut forged = reply.clone();
            forged[at] ^= 0x40;
            fix(&mut forged);
            send(peer, &forged);
        }
        send(stranger, &reply);
        // The true answer itself, a second time.
        send(peer, &reply);
    });
    if probe(&options, &shared, async || tokio::time::sleep(SPAN).await).is_none() {
        return;
    }
    forger.join().unwrap();
    let sum = sum(&shared, Protocol::Icmp);
    assert_eq!((sum.lost, sum.duplicates), (0, 1), "{sum:?}");
    let refused = shared.lock().tallies.refused;
    // In this order: malformed, foreign, from a wrong source, for a probe that was never sent, part of a flood.
    assert_eq!(refused, [1, 1, 1, 2, 0]);
}

/// Writes the checksum, so that the kernel accepts the packet.
fn fix(packet: &mut [u8]) {
    packet[2..4].copy_from_slice(&[0, 0]);
    let sum: u32 = packet.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let checksum = !((folded & 0xffff) + (folded >> 16)) as u16;
    packet[2..4].copy_from_slice(&checksum.to_be_bytes());
}
