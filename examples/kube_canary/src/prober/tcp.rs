//! A TCP connection as a probe. In: an address. Out: the connection, and the time from SYN to established.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::time::Duration;

use socket2::SockRef;
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
}

/// Connects. A port that refuses is an error: the host is there, the canary is not.
pub async fn connect(to: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(to).await?;
    // Closed by a reset: else every probe would leave a port in TIME_WAIT for a minute, 60,000 of them with 1,000 peers.
    SockRef::from(&stream).set_linger(Some(Duration::ZERO))?;
    Ok(stream)
}

/// One probe: how long it took to connect.
pub async fn probe(to: SocketAddr, timeout: Duration) -> io::Result<Took> {
    let begun = Instant::now();
    let stream = connect(to).await?;
    let took = begun.elapsed();
    // Longer than the timer would have let it be: this process was stopped meanwhile. The kernel was not.
    let took = match socket::tcp_info(stream.as_raw_fd()) {
        Some(info) if took > timeout && info.tcpi_rtt > 0 => Duration::from_micros(u64::from(info.tcpi_rtt)),
        _ => took,
    };
    Ok(Took { connect: took, whole: took })
}
