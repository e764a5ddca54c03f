//! One socket through which all peers of a family are probed. In: probes to send. Out: answers and errors, marked in the
//! books of their peers.
//!
//! An answer does not wake this process. The kernel records its arrival time, so it can be read at the next tick, together with other
//! answers. This halves the number of wake-ups.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;

use socket2::Socket;

use super::answers::{Arrival, Asker};
use super::icmp::{self, Way};
use super::packet::Probe;
use super::receive::{Received, Receiver};
use super::stamps::Stamps;
use super::{socket, udp};
use crate::book::Answer;
use crate::mesh::Mesh;
use crate::protocol::{Loss, Protocol};
use crate::tallies::Refused;

/// The most packets that are read before other sockets get their turn.
const BATCH: usize = 64;
/// The longest time from the stamp of a packet until it can be read.
pub const SETTLED: u64 = 2_000_000;
/// How often a call is tried, because it may return the network's answer to another probe.
const TRIES: u32 = 3;

enum Wire {
    Icmp(Way),
    Udp { port: u16 },
}

/// A socket for one protocol and family.
pub struct Channel {
    socket: Socket,
    wire: Wire,
    v6: bool,
    /// All packets that came before this time were read.
    read_to: u64,
    /// When the latest probe was sent, as long as its answer may still come in time.
    asked_at: Option<u64>,
    /// Whether the network has reported an error of a probe. The error itself is in the queue of errors.
    refused: bool,
    /// Whether the kernel has given the arrival time of an answer.
    stamped: bool,
    drops: u32,
}

impl Channel {
    /// A channel for ICMP echo.
    pub fn icmp(v6: bool, nonce: u64) -> Result<Self, icmp::Refusals> {
        let (socket, way) = icmp::open(v6, nonce)?;
        Ok(Channel::new(socket, Wire::Icmp(way), v6))
    }

    /// A channel for UDP echo to that port of each peer.
    pub fn udp(v6: bool, port: u16) -> io::Result<Self> {
        Ok(Channel::new(udp::open(v6)?, Wire::Udp { port }, v6))
    }

    fn new(socket: Socket, wire: Wire, v6: bool) -> Self {
        Channel { socket, wire, v6, read_to: 0, asked_at: None, refused: false, stamped: false, drops: 0 }
    }

    fn protocol(&self) -> Protocol {
        match self.wire {
            Wire::Icmp(_) => Protocol::Icmp,
            Wire::Udp { .. } => Protocol::Udp,
        }
    }

    /// Whether probes to that address by that protocol go through here.
    pub fn carries(&self, protocol: Protocol, to: IpAddr) -> bool {
        self.protocol() == protocol && self.v6 == to.is_ipv6()
    }

    /// All answers that came before that time were read.
    pub fn read_to(&self) -> u64 {
        if self.asked() { self.read_to } else { u64::MAX }
    }

    /// Whether the kernel has given the arrival time of some answer.
    pub fn stamped(&self) -> bool {
        self.stamped
    }

    /// Whether an answer may still come in time, or has come and was not read.
    pub fn asked(&self) -> bool {
        self.asked_at.is_some()
    }

    /// Sends one probe, at `now`. An error is local to this host: no packet of this probe was ever in the network.
    pub fn send(&mut self, to: IpAddr, probe: &Probe, now: u64) -> io::Result<()> {
        self.asked_at = Some(now);
        let once = || match self.wire {
            Wire::Icmp(way) => icmp::send(&self.socket, way, SocketAddr::new(to, 0), probe),
            Wire::Udp { port } => udp::send(&self.socket, SocketAddr::new(to, port), probe),
        };
        // The next call returns the network's error for an earlier probe, whatever probe that call is for. Reading the error clears it. The
        // queue of errors still says to which probe it belongs. If many probes are refused, another error may come between two calls. If
        // every call has an error, there is no route.
        for _ in 0..TRIES {
            match once() {
                Err(error) if network(&error) => {
                    let _ = self.socket.take_error();
                    self.refused = true;
                }
                done => return done,
            }
        }
        once()
    }

    /// Reads answers and errors, at most a batch of each. Returns true if there may be more.
    pub fn read(&mut self, mesh: &mut Mesh, asker: &Asker, stamps: &Stamps, receiver: &mut Receiver) -> bool {
        for _ in 0..BATCH {
            let received = match receiver.receive(self.socket.as_raw_fd(), false) {
                Ok(received) => received,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.read_to = stamps.now();
                    if self.asked_at.is_some_and(|asked| self.read_to > asked + asker.timeout + SETTLED) {
                        self.asked_at = None;
                    }
                    return self.refused && self.read_errors(mesh, asker, receiver);
                }
                Err(_) => {
                    self.refused = true;
                    continue;
                }
            };
            let at = stamps.steady(received.wall);
            // The queue is in order: earlier packets were read before this one.
            self.read_to = self.read_to.max(at.min(stamps.now()));
            match self.settle(mesh, asker, receiver, &received, at) {
                Ok(_) if received.wall.is_none() => mesh.tallies.unstamped += 1,
                Ok(_) => self.stamped = true,
                Err(why) => mesh.tallies.refuse(why),
            }
        }
        true
    }

    fn settle(
        &self,
        mesh: &mut Mesh,
        asker: &Asker,
        receiver: &Receiver,
        received: &Received,
        at: u64,
    ) -> Result<Answer, Refused> {
        let probe = self.probe(receiver.bytes(received), false).filter(|_| !received.cut).ok_or(Refused::Malformed)?;
        if let Wire::Udp { port } = self.wire
            && received.address.port() != port
        {
            return Err(Refused::WrongSource);
        }
        asker.settle(mesh, &probe, &self.arrival(received, at))
    }

    /// Reads the socket's queue of errors. An error that names no probe of this canary is not counted as loss.
    fn read_errors(&mut self, mesh: &mut Mesh, asker: &Asker, receiver: &mut Receiver) -> bool {
        for _ in 0..BATCH {
            let Ok(received) = receiver.receive(self.socket.as_raw_fd(), true) else {
                self.refused = false;
                return false;
            };
            if received.from_network
                && let Some(probe) = self.probe(receiver.bytes(&received), true)
                && let Err(why) = asker.fail(mesh, &probe, &self.arrival(&received, 0))
            {
                mesh.tallies.refuse(why);
            }
        }
        true
    }

    fn probe(&self, bytes: &[u8], quoted: bool) -> Option<Probe> {
        match self.wire {
            Wire::Icmp(way) => icmp::read(self.v6, way, bytes, quoted),
            Wire::Udp { .. } => udp::read(bytes, quoted),
        }
    }

    fn arrival(&self, received: &Received, at: u64) -> Arrival {
        Arrival { at, source: received.address.ip(), protocol: self.protocol(), hop_limit: received.hop_limit }
    }

    /// Makes the channel behave like a kernel that does not give arrival times.
    #[cfg(test)]
    pub fn without_stamps(&self) {
        socket::set(self.socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 0).unwrap();
    }

    /// Packets that the kernel has dropped here since the last call, because the buffer was full.
    pub fn new_drops(&mut self) -> u64 {
        let Some(drops) = socket::drops(self.socket.as_raw_fd()) else { return 0 };
        let new = drops.wrapping_sub(self.drops);
        self.drops = drops;
        u64::from(new)
    }
}

/// Whether an error means that the network reported an unreachable destination.
fn network(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable | ErrorKind::ConnectionRefused)
        || matches!(error.raw_os_error(), Some(libc::EPROTO | libc::ENOPROTOOPT | libc::EHOSTDOWN | libc::ENONET))
}

/// The kind of loss of a failed connection.
pub fn loss(error: &io::Error) -> Loss {
    match error.kind() {
        ErrorKind::TimedOut => Loss::Timeout,
        ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted => Loss::Unreachable,
        _ if network(error) => Loss::Unreachable,
        _ => Loss::Send,
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;
    use crate::histogram::Bounds;
    use crate::mesh::PeerId;
    use crate::peer::Peer;
    use crate::prober::packet::Kind;

    const ASKER: Asker = Asker { nonce: 42, timeout: 1_000_000_000 };

    fn mesh(peer: &str) -> (Mesh, PeerId, IpAddr) {
        let address: IpAddr = peer.parse().unwrap();
        let mut mesh = Mesh::new(Bounds::default(), 0, usize::MAX, "a");
        mesh.update("flags", vec![Peer::at(address)], 0);
        let id = mesh.at(address).unwrap().0;
        (mesh, id, address)
    }

    fn send(channel: &mut Channel, mesh: &mut Mesh, id: PeerId, to: IpAddr) {
        let now = crate::clock::now();
        let sequence = mesh.book(id, Protocol::Udp).unwrap().send(now);
        let probe = Probe { kind: Kind::Request, protocol: Protocol::Udp, nonce: 42, id, sequence };
        channel.send(to, &probe, now).unwrap();
    }

    fn read(channel: &mut Channel, mesh: &mut Mesh) {
        let mut stamps = Stamps::default();
        stamps.read();
        while channel.read(mesh, &ASKER, &stamps, &mut Receiver::new()) {}
    }

    #[test]
    fn what_the_queue_of_errors_says_is_unreachable_and_lost_once() {
        let closed = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let (mut mesh, id, address) = mesh("127.0.0.1");
        let mut channel = Channel::udp(false, closed).unwrap();
        for _ in 0..3 {
            send(&mut channel, &mut mesh, id, address);
        }
        read(&mut channel, &mut mesh);
        read(&mut channel, &mut mesh);
        let book = mesh.book(id, Protocol::Udp).unwrap();
        assert_eq!((book.lost_for(Loss::Unreachable), book.lost_in_all(), book.in_flight()), (3, 3, 0));
    }

    #[test]
    fn answers_without_the_kernel_s_stamp_are_counted() {
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (mut mesh, id, address) = mesh("127.0.0.1");
        let mut channel = Channel::udp(false, peer.local_addr().unwrap().port()).unwrap();
        for (stamps, unstamped) in [(1, 0), (0, 1)] {
            socket::set(channel.socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, stamps).unwrap();
            send(&mut channel, &mut mesh, id, address);
            let mut bytes = [0; 100];
            let (length, from) = peer.recv_from(&mut bytes).unwrap();
            let reply = Probe { kind: Kind::Reply, ..Probe::read(&bytes[..length]).unwrap() };
            // A packet that is not an answer to us does not count as a reply without a stamp either.
            peer.send_to(&Probe { nonce: 7, ..reply }.write(), from).unwrap();
            peer.send_to(&reply.write(), from).unwrap();
            read(&mut channel, &mut mesh);
            assert_eq!((mesh.tallies.unstamped, channel.stamped()), (unstamped, true));
        }
        assert_eq!(mesh.book(id, Protocol::Udp).unwrap().replies(), 2);
    }
}
