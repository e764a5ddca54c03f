//! ICMP echo. In: the family, a probe, bytes. Out: one socket for all peers of a family, and probes wrapped for it.
//!
//! Datagram sockets of ICMP need no privilege if the group of the process is within `net.ipv4.ping_group_range` (of
//! both families); raw ones need CAP_NET_RAW.

use std::io;
use std::net::SocketAddr;

use socket2::{Domain, Protocol as Number, Socket, Type};

use super::packet::{self, Probe};
use super::socket;

/// How echo requests are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The kernel fills in identifier and checksum, and gives us our own replies only.
    Datagram,
    /// We choose the identifier.
    Raw(u16),
}

/// The errors of a datagram and of a raw socket.
pub type Refusals = (io::Error, io::Error);

/// A socket for ICMP echo, with as few privileges as possible.
pub fn open(v6: bool, nonce: u64) -> Result<(Socket, Way), Refusals> {
    let (domain, number) = if v6 { (Domain::IPV6, Number::ICMPV6) } else { (Domain::IPV4, Number::ICMPV4) };
    let prepared = |socket: Socket| socket::prepare(&socket, v6).map(|()| socket);
    let datagram = match Socket::new(domain, Type::DGRAM, Some(number)).and_then(prepared) {
        Ok(socket) => return Ok((socket, Way::Datagram)),
        Err(error) => error,
    };
    let identifier = nonce as u16;
    let raw = Socket::new(domain, Type::RAW, Some(number)).and_then(|socket| {
        // The filters come first: a raw socket gets packets from its first moment on.
        socket::only_own_replies(&socket, v6, identifier)?;
        prepared(socket)
    });
    raw.map(|socket| (socket, Way::Raw(identifier))).map_err(|raw| (datagram, raw))
}

/// Sends one echo request.
pub fn send(socket: &Socket, way: Way, to: SocketAddr, probe: &Probe) -> io::Result<()> {
    let identifier = if let Way::Raw(identifier) = way { identifier } else { 0 };
    socket.send_to(&packet::echo_request(to.is_ipv6(), identifier, probe), &to.into()).map(drop)
}

/// The probe in a received packet. With `quoted`, it is the probe in the packet that an error quotes, which has no IP header.
pub fn read(v6: bool, way: Way, bytes: &[u8], quoted: bool) -> Option<Probe> {
    let bytes = if way != Way::Datagram && !v6 && !quoted { packet::after_ipv4(bytes)? } else { bytes };
    let (identifier, probe) = packet::echo(v6, bytes)?;
    match way {
        Way::Raw(ours) if ours != identifier => None,
        _ => Some(probe),
    }
}
