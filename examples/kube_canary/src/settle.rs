//! Cleans up after the start. In: a process that has parsed flags, opened sockets and made its tables. Out: the same
//! process without the memory that only the start needed.
//!
//! The allocator gives freed memory back to the system. Then the canary scrapes itself once, so that the memory of a first scrape is
//! allocated now, and does not look like a leak later.
//!
//! The pages of the program's own file stay. We tried to unmap them: resident memory became smaller, but not the control group's
//! working set, which a cluster charges. The page cache keeps these pages, and counts pages that are touched again as active.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

/// After this time the first probes have come back.
const START: Duration = Duration::from_secs(2);
const SCRAPE: Duration = Duration::from_secs(2);
const REQUEST: &[u8] = b"GET /metrics HTTP/1.1\r\nHost: self\r\nAccept: application/openmetrics-text;version=1.0.0\r\n\
                         Accept-Encoding: gzip\r\nConnection: close\r\n\r\n";

/// Waits until the start is over, and cleans up. `server` is where the canary's web server listens.
///
/// A failed step is ignored: it only costs memory.
pub async fn down(server: SocketAddr) {
    sleep(START).await;
    let _ = allocanary::tuning::purge();
    let _ = timeout(SCRAPE, scrape(server)).await;
    let _ = allocanary::tuning::purge();
}

/// Scrapes this canary once. If the server listens on all addresses, it uses loopback.
async fn scrape(server: SocketAddr) -> io::Result<()> {
    let mut stream = TcpStream::connect(server).await?;
    stream.write_all(REQUEST).await?;
    let mut page = [0; 4096];
    while stream.read(&mut page).await? > 0 {}
    Ok(())
}
