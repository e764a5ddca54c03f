//! HTTP GET as a probe. In: an address. Out: the time from SYN to a successful answer, and to the connection.
//!
//! The answer is its head, and the part of the body that was read together with it. Its time is the arrival of the last of these bytes. The
//! time that this process spends between the connection and the request is not included.

use std::io;
use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper::{Request, header};
use hyper_util::rt::TokioIo;

use super::tcp::{self, Took};
use super::wire::{Exchange, Wire};

/// The path on which canaries answer.
const PATH: &str = "/healthz";
const AGENT: &str = concat!("kube_canary/", env!("CARGO_PKG_VERSION"));
/// The longest head of an answer that is read. hyper accepts no lower limit.
const MOST_READ: usize = 8192;

/// Sends one probe on a new connection. Returns how long it took. The body is not read.
pub async fn probe(to: SocketAddr) -> io::Result<Took> {
    let (stream, connected) = tcp::connect(to).await?;
    let exchange = Exchange::default();
    let wire = TokioIo::new(Wire::new(stream, &exchange));
    let (mut sender, connection) =
        http1::Builder::new().max_buf_size(MOST_READ).handshake(wire).await.map_err(broken)?;
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
    if !answer.status().is_success() {
        return Err(io::Error::new(io::ErrorKind::ConnectionRefused, format!("{PATH} says {}", answer.status())));
    }
    let Took { connect, looked, .. } = connected;
    Ok(Took { connect, whole: connect + exchange.took(), looked: looked || exchange.looked() })
}

/// The error for an answer that is not HTTP, or that ends early. It counts as unreachable, as a refusal does.
fn broken(error: hyper::Error) -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, error)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::Duration;

    use proptest::prelude::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::prober::echo::Echo;
    use allocanary_testing::fuzz::holds;

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
                    let _ = AsyncReadExt::read(&mut stream, &mut [0; 1024]).await;
                    let _ = AsyncWriteExt::write_all(&mut stream, &answer).await;
                };
                let both = async { tokio::join!(probe(to), answering).0 };
                tokio::time::timeout(LONG, both).await.expect("an end, whatever the answer")
            });
            // Without a complete status line the probe is not answered.
            assert!(probed.is_err() || answer.starts_with(b"HTTP/1."), "{probed:?}");
        });
    }

    /// Answers one request, and takes its time for it.
    fn serve(listener: &TcpListener, asked: &AtomicBool, delay: Duration) {
        let (mut stream, _) = listener.accept().unwrap();
        assert!(stream.read(&mut [0; 1024]).unwrap() > 0);
        asked.store(true, Ordering::Relaxed);
        thread::sleep(delay);
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok\n").unwrap();
    }

    /// The server's time is part of the probe's time. The time of this thread, before the request and after the answer,
    /// is not.
    #[test]
    fn what_this_process_does_meanwhile_is_no_latency() {
        const BUSY: Duration = Duration::from_millis(400);
        const DELAY: Duration = Duration::from_millis(50);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        // Some socket must request receive times before the kernel takes any; in a canary the socket for UDP echo does.
        let _stamped = {
            let _within = runtime.enter();
            Echo::bind(0).unwrap()
        };
        let took = || {
            let asked = AtomicBool::new(false);
            let took = thread::scope(|scope| {
                scope.spawn(|| serve(&listener, &asked, DELAY));
                runtime.block_on(async {
                    let busy = async {
                        thread::sleep(BUSY);
                        while !asked.load(Ordering::Relaxed) {
                            tokio::task::yield_now().await;
                        }
                        thread::sleep(BUSY);
                    };
                    tokio::join!(biased; probe(listener.local_addr().unwrap()), busy).0
                })
            });
            took.unwrap()
        };
        // The server's thread may be stopped as well, but not every time.
        let mut all = Vec::new();
        let quick = (0..5).any(|_| {
            let took = took();
            all.push(took);
            took.whole < BUSY && took.connect < DELAY && !took.looked
        });
        assert!(quick && all.iter().all(|took| DELAY <= took.whole), "{all:?}");
    }
}
