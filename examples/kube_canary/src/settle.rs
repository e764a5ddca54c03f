//! After the start. In: a process that has parsed flags, opened sockets and made its tables. Out: the same process without
//! the memory that only this needed.
//!
//! What the allocator keeps of memory that was freed goes back to the system. Then the canary scrapes itself once. So
//! the memory that a first scrape takes is taken now, and does not look like a leak later.
//!
//! The pages of the program's own file stay. To unmap them made the resident memory smaller and the control group's working
//! set, which is what a cluster charges, no smaller: the page cache keeps them, and counts those that are touched again as active.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

/// The first probes have come back by then.
const START: Duration = Duration::from_secs(2);
const SCRAPE: Duration = Duration::from_secs(2);
const REQUEST: &[u8] = b"GET /metrics HTTP/1.1\r\nHost: self\r\nAccept: application/openmetrics-text;version=1.0.0\r\n\
                         Accept-Encoding: gzip\r\nConnection: close\r\n\r\n";

/// Waits until the start is over, and cleans up. `server` is where the canary's web server listens.
///
/// What cannot be done is left undone: it costs memory, nothing else.
pub async fn down(server: SocketAddr) {
    sleep(START).await;
    let _ = allocanary::tuning::purge();
    let _ = timeout(SCRAPE, scrape(server)).await;
    let _ = allocanary::tuning::purge();
}

/// An address that stands for all of this host's is connected to as loopback.
async fn scrape(server: SocketAddr) -> io::Result<()> {
    let mut stream = TcpStream::connect(server).await?;
    stream.write_all(REQUEST).await?;
    let mut page = [0; 4096];
    while stream.read(&mut page).await? > 0 {}
    Ok(())
}
