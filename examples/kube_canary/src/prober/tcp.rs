//! A TCP connection as a probe. In: an address. Out: the connection, and the time from SYN to established.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::socket;

/// The times of a probe over a connection.
#[derive(Clone, Copy, Debug)]
pub struct Took {
    /// From SYN to established.
    pub connect: Duration,
    /// From SYN to the answer. For TCP it is the same as `connect`.
    pub whole: Duration,
    /// Whether a part of the time was measured by this process, because the kernel gave no time. Then it may include a stop.
    pub looked: bool,
}

/// Connects, and returns how long it took. A refused connection is an error: the host answers, but not the canary.
pub async fn connect(to: SocketAddr) -> io::Result<(TcpStream, Took)> {
    let begun = Instant::now();
    let stream = TcpStream::from_std(begin(to)?.into())?;
    stream.writable().await?;
    if let Some(error) = stream.take_error()? {
        return Err(error);
    }
    let took = begun.elapsed();
    // The connection is closed by a reset. Otherwise every probe would leave a port in TIME_WAIT for a minute: 60,000 of
    // them with 1,000 peers.
    SockRef::from(&stream).set_linger(Some(Duration::ZERO))?;
    let handshake = socket::tcp_info(stream.as_raw_fd()).and_then(|info| handshake(&info));
    let connect = handshake.map_or(took, |handshake| handshake.min(took));
    Ok((stream, Took { connect, whole: connect, looked: handshake.is_none() }))
}

/// Sends the SYN. It does not use tokio, whose error does not say whether the network answered or this host has no route.
fn begin(to: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    match socket.connect(&to.into()) {
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => Ok(socket),
        // This is not an error of the network, because no packet of this probe was ever in it.
        Err(error) if matches!(error.kind(), ErrorKind::NetworkUnreachable | ErrorKind::HostUnreachable) => {
            Err(io::Error::other(format!("no route: {error}")))
        }
        done => done.map(|()| socket),
    }
}

/// The time from SYN to its answer by the kernel's clock, before anything else was sent. It does not include other work or a stop of this
/// process. If a SYN was sent twice, the kernel measures only the second, which would hide the first. Then this returns `None`.
fn handshake(info: &libc::tcp_info) -> Option<Duration> {
    (info.tcpi_rtt > 0 && info.tcpi_total_retrans == 0).then(|| Duration::from_micros(info.tcpi_rtt.into()))
}

/// One probe. Returns how long the connection took.
pub async fn probe(to: SocketAddr) -> io::Result<Took> {
    connect(to).await.map(|(_, took)| took)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn what_this_process_does_meanwhile_is_no_latency() {
        const BUSY: Duration = Duration::from_millis(200);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (took, ()) = runtime.block_on(async {
            // The first poll sends the SYN; then the thread is busy with something else.
            tokio::join!(biased; probe(listener.local_addr().unwrap()), async {
                std::thread::sleep(BUSY);
            })
        });
        let took = took.unwrap();
        assert!(took.whole < BUSY && took.connect == took.whole && !took.looked, "{took:?}");
    }

    #[test]
    fn a_syn_that_was_sent_twice_is_not_timed_by_the_second() {
        // SAFETY: all zeroes are counters at zero.
        let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
        assert_eq!(handshake(&info), None, "a kernel that does not say");
        info.tcpi_rtt = 70;
        assert_eq!(handshake(&info), Some(Duration::from_micros(70)));
        info.tcpi_total_retrans = 1;
        assert_eq!(handshake(&info), None);
    }
}
