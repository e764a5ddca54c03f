//! A listening socket. In: an address. Out: the socket, whose connections take little of the kernel's memory.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};

use socket2::{Domain, Socket, Type};

/// The connections that wait in the kernel's queue.
const BACKLOG: i32 = 1024;
/// The size of a connection's send buffer. The kernel counts twice this size, and charges it to the container's memory. Without a limit the
/// buffer grows to megabytes for each connection.
const SEND_BUFFER: usize = 64 * 1024;

/// Listens on an address. `[::]` takes IPv4 as well. On a host without IPv6, `[::]` means all IPv4 addresses.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let no_ipv6 = |error: &io::Error| matches!(error.raw_os_error(), Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL));
    match listen_at(address) {
        Err(error) if address.ip() == Ipv6Addr::UNSPECIFIED && no_ipv6(&error) => {
            listen_at((Ipv4Addr::UNSPECIFIED, address.port()).into())
        }
        outcome => outcome,
    }
}

fn listen_at(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM.nonblocking().cloexec(), None)?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        // Without this call, the node's default decides whether `[::]` takes IPv4 as well.
        socket.set_only_v6(false)?;
    }
    // Connections inherit the buffer size of the listening socket.
    socket.set_send_buffer_size(SEND_BUFFER)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}
