//! A TCP connection as a probe. In: an address. Out: the connection, and the time from SYN to established.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::socket;

/// What a probe over a connection took.
#[derive(Clone, Copy, Debug)]
pub struct Took {
    /// From SYN to established.
    pub connect: Duration,
    /// From SYN to the answer; for TCP the same.
    pub whole: Duration,
    /// Some of it is until this process looked, since the kernel did not say: a stop may be in it.
    pub looked: bool,
}

/// Connects, and how long that took. A port that refuses is an error: the host is there, the canary is not.
pub async fn connect(to: SocketAddr) -> io::Result<(TcpStream, Took)> {
    let begun = Instant::now();
    let stream = TcpStream::from_std(begin(to)?.into())?;
    stream.writable().await?;
    if let Some(error) = stream.take_error()? {
        return Err(error);
    }
    let took = begun.elapsed();
    // Closed by a reset: else every probe would leave a port in TIME_WAIT for a minute, 60,000 of them with 1,000 peers.
    SockRef::from(&stream).set_linger(Some(Duration::ZERO))?;
    let handshake = socket::tcp_info(stream.as_raw_fd()).and_then(|info| handshake(&info));
    let connect = handshake.map_or(took, |handshake| handshake.min(took));
    Ok((stream, Took { connect, whole: connect, looked: handshake.is_none() }))
}

/// Sends the SYN. Without tokio, whose error does not say whether the network answered it or this host has no route for it.
fn begin(to: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    match socket.connect(&to.into()) {
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => Ok(socket),
        // Not as the network's word: no packet of it was ever there.
        Err(error) if matches!(error.kind(), ErrorKind::NetworkUnreachable | ErrorKind::HostUnreachable) => {
            Err(io::Error::other(format!("no route: {error}")))
        }
        done => done.map(|()| socket),
    }
}

/// From SYN to its answer by the kernel's clock, before anything else was sent: that this process had others to serve first,
/// or was stopped, is not in it. Of a SYN that was sent twice the kernel times the second alone, which would hide the first.
fn handshake(info: &libc::tcp_info) -> Option<Duration> {
    (info.tcpi_rtt > 0 && info.tcpi_total_retrans == 0).then(|| Duration::from_micros(info.tcpi_rtt.into()))
}

/// One probe: how long it took to connect.
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
