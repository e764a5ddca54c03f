//! UDP echo between canaries. In: the family, a probe, bytes. Out: one socket for all peers of a family; the answers come
//! from the peers' `echo`.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use socket2::{Domain, Protocol as Number, Socket, Type};

use super::packet::{Kind, Probe};
use super::socket;

/// A socket for UDP echo, on a port that the kernel chooses. Whoever forges an answer must guess the port as well.
pub fn open(v6: bool) -> io::Result<Socket> {
    let domain = if v6 { Domain::IPV6 } else { Domain::IPV4 };
    let socket = Socket::new(domain, Type::DGRAM, Some(Number::UDP))?;
    if v6 {
        socket.set_only_v6(true)?;
    }
    socket::prepare(&socket, v6)?;
    let any: SocketAddr = if v6 { (Ipv6Addr::UNSPECIFIED, 0).into() } else { (Ipv4Addr::UNSPECIFIED, 0).into() };
    socket.bind(&any.into())?;
    Ok(socket)
}

/// Sends one request.
pub fn send(socket: &Socket, to: SocketAddr, probe: &Probe) -> io::Result<()> {
    socket.send_to(&probe.write(), &to.into()).map(drop)
}

/// The probe in a received packet. With `quoted`, it is the probe in the packet that an error quotes.
pub fn read(bytes: &[u8], quoted: bool) -> Option<Probe> {
    let wanted = if quoted { Kind::Request } else { Kind::Reply };
    Probe::read(bytes).filter(|probe| probe.kind == wanted)
}
