//! HTTP GET as a probe. In: an address. Out: the time from SYN to the head of a successful answer, and to the connection.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper::{Request, header};
use hyper_util::rt::TokioIo;
use tokio::time::Instant;

use super::socket;
use super::tcp::{self, Took};

/// The path that canaries answer on.
const PATH: &str = "/healthz";
const AGENT: &str = concat!("kube_canary/", env!("CARGO_PKG_VERSION"));
/// The longest head of an answer that is read: hyper's least.
const MOST_READ: usize = 8192;

/// One probe on a connection of its own: how long it took. The body is not read.
pub async fn probe(to: SocketAddr, timeout: Duration) -> io::Result<Took> {
    let begun = Instant::now();
    let stream = tcp::connect(to).await?;
    let connect = begun.elapsed();
    let fd = stream.as_raw_fd();
    let (mut sender, connection) =
        http1::Builder::new().max_buf_size(MOST_READ).handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let request = Request::get(PATH)
        .header(header::HOST, to.to_string())
        .header(header::USER_AGENT, AGENT)
        .header(header::CONNECTION, "close")
        .body(Empty::<Bytes>::new())
        .map_err(io::Error::other)?;
    tokio::pin!(connection);
    let answer = async { sender.send_request(request).await.map_err(broken) };
    tokio::pin!(answer);
    let answer = tokio::select! {
        biased;
        answer = &mut answer => answer?,
        // The connection ends with its last answer, or without any.
        ended = &mut connection => {
            ended.map_err(broken)?;
            answer.await?
        }
    };
    let took = begun.elapsed();
    if !answer.status().is_success() {
        return Err(io::Error::new(io::ErrorKind::ConnectionRefused, format!("{PATH} says {}", answer.status())));
    }
    // As for TCP: where this process was stopped, the kernel knows when the last byte came.
    let whole = match socket::tcp_info(fd) {
        Some(info) if took > timeout => took.saturating_sub(Duration::from_millis(u64::from(info.tcpi_last_data_recv))),
        _ => took,
    };
    Ok(Took { connect: connect.min(whole), whole })
}

/// What is not HTTP, or ends in the middle of it, is a peer that refuses.
fn broken(error: hyper::Error) -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, error)
}
