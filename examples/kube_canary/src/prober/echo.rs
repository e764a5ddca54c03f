//! The answering side of UDP echo. In: requests of other canaries. Out: replies of the same size, from the address to which
//! the request was sent. The number of replies a second is limited to what canaries need.

use std::io::{self, ErrorKind};
use std::mem;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, RawFd};

use libc::c_void;
use socket2::{Domain, Protocol as Number, SockAddr, Socket, Type};
use tokio::io::Interest;
use tokio::net::UdpSocket;

use super::packet::{Kind, LENGTH, Probe};
use super::receive::{Pktinfo, Received, Receiver};
use super::socket;
use crate::clock;
use crate::error::{Error, Result};
use crate::mesh::Shared;
use crate::protocol::Protocol;
use crate::tallies::{Refused, Tallies};

/// The most replies a second, to all canaries together: a mesh of 1,000 peers with four probes a second needs a fifth
/// of that.
const MOST_A_SECOND: u32 = 20_000;
const BATCH: usize = 64;
const SECOND: u64 = 1_000_000_000;

/// The socket that answers, for both families if the host has IPv6.
pub struct Echo {
    socket: UdpSocket,
    drops: u32,
    limit: Limit,
}

impl Echo {
    /// Opens the port; for 0 the kernel chooses one. Must be called within a tokio runtime.
    pub fn bind(port: u16) -> Result<Self> {
        let any: SocketAddr = (Ipv6Addr::UNSPECIFIED, port).into();
        let socket = match open(any) {
            // A host without IPv6 has neither the family nor its addresses.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL)) => {
                open((Ipv4Addr::UNSPECIFIED, port).into())
            }
            socket => socket,
        };
        let failed = |error| Error::Port { what: "answering UDP echo on", address: any, error };
        let socket = socket.map_err(failed)?;
        Ok(Echo {
            socket: UdpSocket::from_std(socket.into()).map_err(failed)?,
            drops: 0,
            limit: Limit { second: 0, left: 0 },
        })
    }

    /// Requests that the kernel dropped since the last call because this canary did not read them. Other canaries see
    /// loss that the network did not cause.
    pub fn new_drops(&mut self) -> u64 {
        let Some(drops) = socket::drops(self.socket.as_raw_fd()) else { return 0 };
        u64::from(drops.wrapping_sub(std::mem::replace(&mut self.drops, drops)))
    }

    /// The port on which requests are answered.
    pub fn port(&self) -> u16 {
        self.socket.local_addr().map_or(0, |address| address.port())
    }

    /// Waits for requests and answers them, at most a batch.
    pub async fn answer(&mut self, shared: &Shared, receiver: &mut Receiver) -> io::Result<()> {
        self.socket.readable().await?;
        let mut counts = Counts::default();
        // The read goes through tokio, which must learn that there are no more packets.
        let all = self.socket.try_io(Interest::READABLE, || {
            let more = take(self.socket.as_raw_fd(), &mut self.limit, &mut counts, receiver);
            if more { Ok(()) } else { Err(ErrorKind::WouldBlock.into()) }
        });
        // The mesh is locked only after the replies: a page that is being written holds the lock, and waiting for it
        // would make the round trips of others longer.
        counts.add_to(&mut shared.lock().tallies);
        all.or_else(|error| if error.kind() == ErrorKind::WouldBlock { Ok(()) } else { Err(error) })
    }

    /// Answers waiting requests, at most a batch, without waiting.
    pub fn take(&mut self, tallies: &mut Tallies, receiver: &mut Receiver) {
        let mut counts = Counts::default();
        take(self.socket.as_raw_fd(), &mut self.limit, &mut counts, receiver);
        counts.add_to(tallies);
    }
}

/// Counts of the requests of a batch.
#[derive(Debug, Default)]
struct Counts {
    echoed: u64,
    malformed: u64,
    flood: u64,
}

impl Counts {
    fn add_to(&self, tallies: &mut Tallies) {
        tallies.echoed += self.echoed;
        tallies.refused[Refused::Malformed as usize] += self.malformed;
        tallies.refused[Refused::Flood as usize] += self.flood;
    }
}

/// Answers waiting requests, at most a batch. Returns true if there may be more.
fn take(socket: RawFd, limit: &mut Limit, counts: &mut Counts, receiver: &mut Receiver) -> bool {
    for _ in 0..BATCH {
        let received = match receiver.receive(socket, false) {
            Ok(received) => received,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
            // The other canary closed its socket before our reply came; this error is not ours.
            Err(_) => continue,
        };
        match reply(receiver.bytes(&received), received.cut) {
            None => counts.malformed += 1,
            Some(_) if !limit.take(clock::now()) => counts.flood += 1,
            Some(bytes) => counts.echoed += u64::from(send_back(socket, &bytes, &received).is_ok()),
        }
    }
    true
}

/// The answer to a request; `None` for anything else, including replies.
fn reply(bytes: &[u8], cut: bool) -> Option<[u8; LENGTH]> {
    let probe =
        Probe::read(bytes).filter(|probe| !cut && probe.kind == Kind::Request && probe.protocol == Protocol::Udp)?;
    Some(Probe { kind: Kind::Reply, ..probe }.write())
}

struct Limit {
    second: u64,
    left: u32,
}

impl Limit {
    fn take(&mut self, now: u64) -> bool {
        // Seconds begin with 1, because 0 means that no second has begun.
        let second = now / SECOND + 1;
        if second != self.second {
            *self = Limit { second, left: MOST_A_SECOND };
        }
        self.left = match self.left.checked_sub(1) {
            Some(left) => left,
            None => return false,
        };
        true
    }
}

fn open(address: SocketAddr) -> io::Result<Socket> {
    let domain = if address.is_ipv6() { Domain::IPV6 } else { Domain::IPV4 };
    let socket = Socket::new(domain, Type::DGRAM, Some(Number::UDP))?;
    socket.set_nonblocking(true)?;
    let fd = socket.as_raw_fd();
    socket::receive_buffer(fd);
    // The receive times of this socket are not read. They are requested because the kernel takes receive times once any socket of the host
    // requests them, and needs a moment to begin. This socket lives as long as the canary, while those of HTTP come and go.
    socket::receive_times(fd);
    // A host has many addresses, and the other canary accepts an answer only from the address that it has probed.
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
        socket::set(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1_i32)?;
    } else {
        socket::set(fd, libc::IPPROTO_IP, libc::IP_PKTINFO, 1_i32)?;
    }
    socket.bind(&address.into())?;
    Ok(socket)
}

/// Sends a reply from the address to which the request was sent.
fn send_back(socket: RawFd, bytes: &[u8], received: &Received) -> io::Result<()> {
    let name = SockAddr::from(received.address);
    let mut vector = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast::<c_void>(), iov_len: bytes.len() };
    let mut control = [0_u64; 8];
    // SAFETY: all zeroes is a message without buffers.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_name = name.as_ptr().cast_mut().cast::<c_void>();
    message.msg_namelen = name.len();
    message.msg_iov = &raw mut vector;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast::<c_void>();
    message.msg_controllen = size_of_val(&control) as _;
    match received.destination {
        Some(Pktinfo::V4(mut info)) => {
            info.ipi_ifindex = 0;
            info.ipi_spec_dst = info.ipi_addr;
            put(&mut message, libc::IPPROTO_IP, libc::IP_PKTINFO, info);
        }
        Some(Pktinfo::V6(mut info)) => {
            // Only a link-local address belongs to one interface; for other addresses the route back may use another
            // interface.
            if !Ipv6Addr::from(info.ipi6_addr.s6_addr).is_unicast_link_local() {
                info.ipi6_ifindex = 0;
            }
            put(&mut message, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, info);
        }
        None => message.msg_controllen = 0,
    }
    // SAFETY: name, buffer and control message live through the call, each with its length.
    let sent = unsafe { libc::sendmsg(socket, &raw const message, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Writes the one control message of a message whose control buffer is large enough for it.
fn put<T: Copy>(message: &mut libc::msghdr, level: libc::c_int, kind: libc::c_int, value: T) {
    // SAFETY: the control buffer has 64 bytes, a header and either structure less than 40; the macros point into it.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(message);
        (*header).cmsg_level = level;
        (*header).cmsg_type = kind;
        (*header).cmsg_len = libc::CMSG_LEN(size_of::<T>() as u32) as _;
        std::ptr::copy_nonoverlapping((&raw const value).cast::<u8>(), libc::CMSG_DATA(header), size_of::<T>());
        message.msg_controllen = libc::CMSG_SPACE(size_of::<T>() as u32) as _;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::PeerId;

    fn request() -> Probe {
        let id = PeerId { slot: 1, generation: 2 };
        Probe { kind: Kind::Request, protocol: Protocol::Udp, nonce: 3, id, sequence: 4 }
    }

    #[test]
    fn a_reply_is_no_request_so_two_canaries_cannot_loop() {
        let answer = reply(&request().write(), false).unwrap();
        assert_eq!(Probe::read(&answer), Some(Probe { kind: Kind::Reply, ..request() }));
        assert_eq!(reply(&answer, false), None);
        assert_eq!(reply(&request().write(), true), None);
        assert_eq!(reply(&Probe { protocol: Protocol::Icmp, ..request() }.write(), false), None);
    }

    #[test]
    fn a_request_is_answered_while_somebody_has_the_mesh() {
        let shared = Shared::new(crate::mesh::Mesh::new(crate::histogram::Bounds::default(), 0, 9, "a"));
        let (port, at) = std::sync::mpsc::channel();
        let answering = std::thread::spawn({
            let shared = shared.clone();
            move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(async {
                    let mut echo = Echo::bind(0).unwrap();
                    port.send(echo.port()).unwrap();
                    echo.answer(&shared, &mut Receiver::new()).await.unwrap();
                });
            }
        });
        let asker = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        asker.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
        let mesh = shared.lock();
        asker.send_to(&request().write(), ("127.0.0.1", at.recv().unwrap())).unwrap();
        assert_eq!(asker.recv(&mut [0; LENGTH]).expect("an answer while the mesh is taken"), LENGTH);
        assert_eq!(mesh.tallies.echoed, 0);
        drop(mesh);
        answering.join().unwrap();
        assert_eq!(shared.lock().tallies.echoed, 1);
    }

    #[test]
    fn it_keeps_the_kernel_s_receive_times_on() {
        let socket = open((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let to = socket.local_addr().unwrap().as_socket().unwrap();
        std::net::UdpSocket::bind("127.0.0.1:0").unwrap().send_to(&request().write(), to).unwrap();
        let received = Receiver::new().receive(socket.as_raw_fd(), false).unwrap();
        assert!(received.wall.is_some());
    }

    #[test]
    fn a_flood_gets_its_share_of_a_second_and_no_more() {
        let mut limit = Limit { second: 0, left: 0 };
        let granted = (0..50_000).filter(|_| limit.take(5)).count();
        assert_eq!(granted, MOST_A_SECOND as usize);
        assert!(limit.take(SECOND));
    }
}
