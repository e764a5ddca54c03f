//! recvmsg with its control messages. In: a socket. Out: one packet at a time, in a buffer that is reused: its source, the kernel's receive
//! time, its hop limit, its destination, or the error that the network answered.

use std::io;
use std::mem::{self, MaybeUninit};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::RawFd;

use libc::{c_int, c_void};

/// The longest packet that can be ours is an IPv4 header with options, an ICMP header and a probe. A longer packet is cut, and then
/// refused.
const BUFFER: usize = 128;
/// The 64-bit words for control messages. Receive time, hop limit, destination and an error need 160 bytes.
pub const CONTROL: usize = 32;

/// One packet or one error from the kernel.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// Bytes of it in the buffer.
    pub length: usize,
    /// Whether it was longer than the buffer.
    pub cut: bool,
    /// Its source; for an error, the destination of the packet that failed.
    pub address: SocketAddr,
    /// The kernel's receive time, in nanoseconds since 1970.
    pub wall: Option<u64>,
    /// The number of hops that it had left.
    pub hop_limit: Option<u8>,
    /// The address of this host to which it was sent.
    pub destination: Option<Pktinfo>,
    /// Whether the error came from the network. The send call has already returned errors of this host itself.
    pub from_network: bool,
}

/// The address and interface to which a packet was sent, in the kernel's form, so that an answer can be sent from
/// there.
#[derive(Clone, Copy, Debug)]
pub enum Pktinfo {
    /// From a socket of IPv4.
    V4(libc::in_pktinfo),
    /// From a socket of IPv6.
    V6(libc::in6_pktinfo),
}

/// The buffers of recvmsg.
pub struct Receiver {
    bytes: [u8; BUFFER],
    control: [u64; CONTROL],
}

impl Receiver {
    /// Empty buffers.
    pub const fn new() -> Self {
        Receiver { bytes: [0; BUFFER], control: [0; CONTROL] }
    }

    /// The bytes of the packet that was received last.
    pub fn bytes(&self, received: &Received) -> &[u8] {
        &self.bytes[..received.length]
    }

    /// The next packet, or with `errors` the next error; `WouldBlock` if there is none.
    pub fn receive(&mut self, socket: RawFd, errors: bool) -> io::Result<Received> {
        message(socket, errors, &mut self.bytes, &mut self.control)
    }
}

/// As [`Receiver::receive`], into any buffer. From a stream it reads the next bytes; no bytes mean the end of the
/// stream.
pub fn message(socket: RawFd, errors: bool, bytes: &mut [u8], control: &mut [u64; CONTROL]) -> io::Result<Received> {
    // SAFETY: all zeroes is an address of no family.
    let mut name: libc::sockaddr_storage = unsafe { mem::zeroed() };
    let mut vector = libc::iovec { iov_base: bytes.as_mut_ptr().cast::<c_void>(), iov_len: bytes.len() };
    // SAFETY: all zeroes is a message without buffers.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_name = (&raw mut name).cast::<c_void>();
    message.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    message.msg_iov = &raw mut vector;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast::<c_void>();
    message.msg_controllen = size_of_val(control) as _;
    let flags = libc::MSG_DONTWAIT | if errors { libc::MSG_ERRQUEUE } else { 0 };
    // SAFETY: the message points to a name, one buffer and a control buffer that live through the call, each with its
    // length.
    let length = unsafe { libc::recvmsg(socket, &raw mut message, flags) };
    if length < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut received = Received {
        length: (length as usize).min(bytes.len()),
        cut: message.msg_flags & libc::MSG_TRUNC != 0,
        address: address(&name).unwrap_or(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0)),
        wall: None,
        hop_limit: None,
        destination: None,
        from_network: false,
    };
    read_control(&message, &mut received);
    Ok(received)
}

impl Default for Receiver {
    fn default() -> Self {
        Receiver::new()
    }
}

fn read_control(message: &libc::msghdr, received: &mut Received) {
    // SAFETY: the kernel filled the control buffer and its length; the macros stay within both.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !next.is_null() {
        // SAFETY: not null, so a whole header within the buffer.
        let header = unsafe { *next };
        match (header.cmsg_level, header.cmsg_type) {
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                received.wall = data::<libc::timespec>(next, &header)
                    .map(|time| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64);
            }
            (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                received.hop_limit = data::<c_int>(next, &header).and_then(|limit| u8::try_from(limit).ok());
            }
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                received.destination = data(next, &header).map(Pktinfo::V4).or(received.destination);
            }
            // A socket of both families receives both forms for IPv4, but for sending it accepts only this one.
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => received.destination = data(next, &header).map(Pktinfo::V6),
            (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR) => {
                let error = data::<libc::sock_extended_err>(next, &header);
                received.from_network = error.is_some_and(|error| {
                    error.ee_origin == libc::SO_EE_ORIGIN_ICMP || error.ee_origin == libc::SO_EE_ORIGIN_ICMP6
                });
            }
            _ => {}
        }
        // SAFETY: `next` is a header of this message.
        next = unsafe { libc::CMSG_NXTHDR(message, next) };
    }
}

/// The value of a control message, if it is long enough.
fn data<T: Copy>(at: *const libc::cmsghdr, header: &libc::cmsghdr) -> Option<T> {
    // SAFETY: arithmetic only.
    let wanted = unsafe { libc::CMSG_LEN(size_of::<T>() as u32) } as usize;
    if header.cmsg_len < wanted as _ {
        return None;
    }
    let mut value = MaybeUninit::<T>::uninit();
    // SAFETY: the message holds at least that many bytes after its header, and all `T` used here are plain C structures.
    unsafe {
        std::ptr::copy_nonoverlapping(libc::CMSG_DATA(at), value.as_mut_ptr().cast::<u8>(), size_of::<T>());
        Some(value.assume_init())
    }
}

/// The address in a C structure.
fn address(name: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match c_int::from(name.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says which structure it is, and the storage is larger than any.
            let v4 = unsafe { *(&raw const *name).cast::<libc::sockaddr_in>() };
            Some(SocketAddr::new(Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr)).into(), u16::from_be(v4.sin_port)))
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let v6 = unsafe { *(&raw const *name).cast::<libc::sockaddr_in6>() };
            Some(SocketAddr::new(Ipv6Addr::from(v6.sin6_addr.s6_addr).into(), u16::from_be(v6.sin6_port)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsRawFd;
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::*;
    use crate::prober::socket;

    #[test]
    fn a_packet_comes_with_its_source_time_and_hops_and_a_long_one_is_cut() {
        let to = UdpSocket::bind("127.0.0.1:0").unwrap();
        let from = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket::prepare(&socket2::Socket::from(to.try_clone().unwrap()), false).unwrap();
        let mut receiver = Receiver::new();
        assert_eq!(receiver.receive(to.as_raw_fd(), false).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        from.send_to(b"hello", to.local_addr().unwrap()).unwrap();
        from.send_to(&[7; 1000], to.local_addr().unwrap()).unwrap();
        let received = receiver.receive(to.as_raw_fd(), false).unwrap();
        assert_eq!((receiver.bytes(&received), received.cut), (&b"hello"[..], false));
        assert_eq!((received.address, received.hop_limit), (from.local_addr().unwrap(), Some(64)));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
        assert!(received.wall.unwrap().abs_diff(now) < 3_600_000_000_000);
        let received = receiver.receive(to.as_raw_fd(), false).unwrap();
        assert!(received.cut && received.length == BUFFER);
    }

    #[test]
    fn a_refused_port_is_an_error_of_the_network_with_the_packet_that_failed() {
        let closed = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let from = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket::prepare(&socket2::Socket::from(from.try_clone().unwrap()), false).unwrap();
        from.send_to(b"anybody?", closed).unwrap();
        let mut receiver = Receiver::new();
        let received = receiver.receive(from.as_raw_fd(), true).unwrap();
        assert_eq!((receiver.bytes(&received), received.address), (&b"anybody?"[..], closed));
        assert!(received.from_network);
    }
}
