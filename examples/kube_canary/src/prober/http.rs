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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::fuzz::holds;

    /// Nothing here waits for longer than a machine may stand still.
    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn fuzz_a_peer_may_answer_anything() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let beginnings = [&b""[..], b"HTTP/1.", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: "];
        let drawn =
            (prop::sample::select(beginnings.to_vec()), prop::collection::vec(any::<u8>(), 0..400), any::<bool>());
        holds(64, 1, drawn, |(begin, noise, whole)| {
            let end = if whole { &b"\r\n\r\n"[..] } else { b"" };
            let answer = [begin, &noise, end].concat();
            let probed = runtime.block_on(async {
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
                let to = listener.local_addr().unwrap();
                let answering = async {
                    let (mut stream, _) = listener.accept().await.unwrap();
                    let _ = stream.read(&mut [0; 1024]).await;
                    let _ = stream.write_all(&answer).await;
                };
                let both = async { tokio::join!(probe(to, LONG), answering).0 };
                tokio::time::timeout(LONG, both).await.expect("an end, whatever the answer")
            });
            // Where it says less than a status, nobody has answered.
            assert!(probed.is_err() || answer.starts_with(b"HTTP/1."), "{probed:?}");
        });
    }
}
