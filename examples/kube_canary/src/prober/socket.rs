//! Socket options that neither std nor socket2 has. In: a socket. Out: the same socket with large buffers, receive
//! times, hop limits and its queue of errors; and the kernel's count of dropped packets.

use std::io;
use std::mem::{size_of, size_of_val};
use std::os::fd::{AsRawFd, RawFd};

use libc::{c_int, c_void};
use socket2::Socket;

/// Bytes that may wait in a socket: some 5,000 replies by the kernel's count. Only waiting packets use memory.
const RECEIVE_BUFFER: c_int = 4 << 20;
/// `linux/sock_diag.h`: the index of the count of dropped packets in the answer to `SO_MEMINFO`.
const MEMINFO_DROPS: usize = 8;
const MEMINFO_WORDS: usize = 9;
const SO_MEMINFO: c_int = 55;
/// From `linux/icmp.h` and `linux/icmpv6.h`. The libc crate does not have these.
const SOL_RAW: c_int = 255;
const ICMP_FILTER: c_int = 1;
const ICMP6_FILTER: c_int = 1;

/// Sets one option.
pub fn set<T: Copy>(socket: RawFd, level: c_int, name: c_int, value: T) -> io::Result<()> {
    // SAFETY: the pointer and the length are those of a value that lives through the call.
    let done = unsafe {
        libc::setsockopt(socket, level, name, (&raw const value).cast::<c_void>(), size_of::<T>() as libc::socklen_t)
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes the socket non-blocking, with a large buffer, kernel receive times, hop limits and a queue of errors.
///
/// The options help if the kernel has them, and are not needed otherwise. So their errors are ignored.
pub fn prepare(socket: &Socket, v6: bool) -> io::Result<()> {
    let fd = socket.as_raw_fd();
    socket.set_nonblocking(true)?;
    receive_buffer(fd);
    receive_times(fd);
    if v6 {
        let _ = set(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT, 1_i32);
        let _ = set(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVERR, 1_i32);
    } else {
        let _ = set(fd, libc::IPPROTO_IP, libc::IP_RECVTTL, 1_i32);
        let _ = set(fd, libc::IPPROTO_IP, libc::IP_RECVERR, 1_i32);
    }
    Ok(())
}

/// Requests receive times from the kernel, if it has them.
pub fn receive_times(socket: RawFd) {
    let _ = set(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1_i32);
}

/// Asks for a large receive buffer. Only with CAP_NET_ADMIN may it exceed `net.core.rmem_max`.
pub fn receive_buffer(socket: RawFd) {
    if set(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, RECEIVE_BUFFER).is_err() {
        let _ = set(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, RECEIVE_BUFFER);
    }
}

/// Filters a raw socket: from now on it receives only echo replies to its own requests. Without the filter every raw
/// socket of a host receives the replies to all of them, and reading them costs much processor time.
pub fn only_own_replies(socket: &Socket, v6: bool, identifier: u16) -> io::Result<()> {
    if v6 {
        let mut blocked = [u32::MAX; 8];
        blocked[129 / 32] &= !(1 << (129 % 32));
        set(socket.as_raw_fd(), libc::IPPROTO_ICMPV6, ICMP6_FILTER, blocked)?;
    } else {
        set(socket.as_raw_fd(), SOL_RAW, ICMP_FILTER, !1_u32)?;
    }
    // Classic BPF: the identifier is the two bytes at offset 4 of the ICMP header. For IPv4, an IP header of any length comes before that.
    let statement = |code, jt, jf, k| socket2::SockFilter::new(code, jt, jf, k);
    // ldx #0, or ldx 4 * ([0] & 15)
    let header = statement(if v6 { 0x01 } else { 0xb1 }, 0, 0, 0);
    socket.attach_filter(&[
        header,
        statement(0x48, 0, 0, 4),                     // ldh [x + 4]
        statement(0x15, 0, 1, u32::from(identifier)), // jeq #identifier
        statement(0x06, 0, 0, u32::MAX),              // ret all
        statement(0x06, 0, 0, 0),                     // ret nothing
    ])
}

/// How many packets the kernel has dropped at this socket because its buffer was full.
///
/// `SO_RXQ_OVFL` says the same, but only with the next packet that is not dropped.
pub fn drops(socket: RawFd) -> Option<u32> {
    let mut words = [0_u32; MEMINFO_WORDS];
    let mut length = size_of_val(&words) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into an array of that size.
    let done = unsafe {
        libc::getsockopt(socket, libc::SOL_SOCKET, SO_MEMINFO, words.as_mut_ptr().cast::<c_void>(), &raw mut length)
    };
    (done == 0 && length as usize >= size_of_val(&words)).then_some(words[MEMINFO_DROPS])
}

/// The kernel's data about a TCP connection.
pub fn tcp_info(socket: RawFd) -> Option<libc::tcp_info> {
    // SAFETY: all zeroes are counters at zero.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into a structure of that size.
    let done = unsafe {
        libc::getsockopt(socket, libc::IPPROTO_TCP, libc::TCP_INFO, (&raw mut info).cast::<c_void>(), &raw mut length)
    };
    (done == 0).then_some(info)
}

/// 64 random bits from the kernel.
pub fn random() -> io::Result<u64> {
    let mut bits = 0_u64;
    // SAFETY: the kernel writes eight bytes into a number of eight bytes.
    let got = unsafe { libc::getrandom((&raw mut bits).cast::<c_void>(), size_of::<u64>(), 0) };
    if got == size_of::<u64>() as isize { Ok(bits) } else { Err(io::Error::last_os_error()) }
}
