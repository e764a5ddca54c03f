//! The lobby, where connections wait until they have sent a request. In: connections of any client. Out: those that have sent a whole
//! request, in this order. A request for the state of health is answered here, because it needs no place.
//!
//! Only connections with a whole request get one of the server's places, so a client that sends its request a byte at a time does not delay
//! others. The lobby only peeks at the bytes, which stay in the kernel, so a waiting connection needs no buffer.

use std::collections::VecDeque;
use std::io;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};

use crate::{Limits, Site, connection};

/// The most connections that wait here. If there are more, the oldest one without a request is closed.
pub(crate) const MOST_WAITING: usize = 512;
/// The most connections that have sent a request and wait for a place.
pub(crate) const MOST_ASKED: usize = 256;
/// A connection whose head is longer than this many bytes gets a place before the head is complete. That is safe, because the client has to
/// send these bytes first.
pub(crate) const MOST_PEEKED: usize = 2048;
/// The first byte of a connection that speaks TLS: the type of the record of its first message.
pub(crate) const HANDSHAKE: u8 = 22;
/// The bytes of a record before its message: type, version, length.
const HANDSHAKE_HEAD: usize = 5;
/// If all connections in the lobby have sent a request, none can be closed: it looks again for room after this time.
const AGAIN: Duration = Duration::from_millis(10);

/// A waiting connection. Its task holds the receiver of `end`, and closes the connection when something arrives.
#[derive(Debug)]
struct Waiting {
    end: oneshot::Sender<()>,
    asked: Arc<AtomicBool>,
}

/// The waiting connections.
#[derive(Debug)]
pub(crate) struct Lobby<S> {
    waiting: VecDeque<Waiting>,
    /// Receives the connections that have sent a request.
    door: mpsc::Sender<TcpStream>,
    /// Answers requests for the state of health.
    site: Arc<S>,
    /// `head` limits the wait for a whole head.
    limits: Limits,
}

impl<S: Site> Lobby<S> {
    /// An empty lobby. It sends connections with a request to `door`.
    pub(crate) fn new(door: mpsc::Sender<TcpStream>, site: Arc<S>, limits: Limits) -> Self {
        Lobby { waiting: VecDeque::new(), door, site, limits }
    }

    /// Makes room for one more connection. Returns how many were closed for this.
    pub(crate) async fn make_room(&mut self) -> u64 {
        let mut cut = 0;
        loop {
            self.waiting.retain(|waiting| !waiting.end.is_closed());
            if self.waiting.len() < MOST_WAITING {
                return cut;
            }
            match self.cut_oldest() {
                true => cut += 1,
                false => sleep(AGAIN).await,
            }
        }
    }

    /// Closes the connection that has waited longest without a request. Returns false if all have sent one.
    pub(crate) fn cut_oldest(&mut self) -> bool {
        while let Some(at) = self.waiting.iter().position(|waiting| !waiting.asked.load(Ordering::Relaxed)) {
            if self.waiting.remove(at).is_some_and(|waiting| waiting.end.send(()).is_ok()) {
                return true;
            }
        }
        false
    }

    /// Adds a connection.
    pub(crate) fn enter(&mut self, stream: TcpStream) {
        let (end, ended) = oneshot::channel();
        let asked = Arc::new(AtomicBool::new(false));
        self.waiting.push_back(Waiting { end, asked: asked.clone() });
        let (door, site, limits) = (self.door.clone(), self.site.clone(), self.limits);
        tokio::spawn(async move {
            let pass = async {
                match timeout(limits.head, has_asked(&stream, S::HEALTH)).await {
                    Ok(Ok(Asked::Page)) => {
                        asked.store(true, Ordering::Relaxed);
                        // `send` fails only when the server ends, which also ends this connection.
                        let _ = door.send(stream).await;
                    }
                    // `asked` stays false, so `cut_oldest` may close this connection. Its short answer was sent by then.
                    Ok(Ok(Asked::Health)) => {
                        _ = timeout(limits.head, connection(stream, site, Limits { keeps_alive: false, ..limits }))
                            .await;
                    }
                    _ => {}
                }
            };
            tokio::select! {
                biased;
                () = pass => {}
                _ = ended => {}
            }
        });
    }
}

/// What a client has asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    /// Nothing: the client has closed the connection.
    Nothing,
    /// The state of health.
    Health,
    /// Anything else.
    Page,
}

/// Waits until the whole head has arrived, or `MOST_PEEKED` bytes, after which the request is answered without its end.
async fn has_asked(stream: &TcpStream, health: &str) -> io::Result<Asked> {
    loop {
        // `ready` comes before the peek: bytes that arrive later make the socket ready again.
        let ready = stream.ready(Interest::READABLE).await?;
        let look = || match peek(stream, health)? {
            // No more bytes will come; the server notices this when it reads.
            None if ready.is_read_closed() => Ok(Asked::Page),
            None => Err(io::ErrorKind::WouldBlock.into()),
            Some(asked) => Ok(asked),
        };
        match stream.try_io(Interest::READABLE, look) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            looked => return looked,
        }
    }
}

/// What a whole head asks for. [`Asked::Nothing`] if the client has closed without one. `None` if more bytes must come.
fn peek(stream: &TcpStream, health: &str) -> io::Result<Option<Asked>> {
    let mut bytes = [MaybeUninit::<u8>::uninit(); MOST_PEEKED];
    let length = SockRef::from(stream).peek(&mut bytes)?;
    // SAFETY: `peek` has written `length` bytes.
    let bytes = unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast::<u8>(), length) };
    let ends = |end: &[u8]| bytes.windows(end.len()).any(|piece| piece == end);
    Ok(match length {
        0 => Some(Asked::Nothing),
        _ if bytes[0] == HANDSHAKE => is_whole_record(bytes).then_some(Asked::Page),
        _ if ends(b"\n\r\n") || ends(b"\n\n") => Some(if is_for(bytes, health) { Asked::Health } else { Asked::Page }),
        MOST_PEEKED => Some(Asked::Page),
        _ => None,
    })
}

/// Whether the first message of TLS is whole, or so long that it must be looked at without its end.
fn is_whole_record(bytes: &[u8]) -> bool {
    let length = bytes.get(3..5).map(|length| usize::from(length[0]) << 8 | usize::from(length[1]));
    length.is_some_and(|length| bytes.len() >= (HANDSHAKE_HEAD + length).min(MOST_PEEKED))
}

/// Whether a head asks for this path.
fn is_for(head: &[u8], path: &str) -> bool {
    let rest = head.strip_prefix(b"GET ").or(head.strip_prefix(b"HEAD "));
    let rest = rest.and_then(|rest| rest.strip_prefix(path.as_bytes()));
    rest.is_some_and(|rest| matches!(rest.first(), Some(b' ' | b'?' | b'\r' | b'\n')))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::Shutdown;

    use super::*;

    /// What a client that does this has asked for; `None` means not yet.
    fn asked(client: impl FnOnce(&mut std::net::TcpStream)) -> Option<Asked> {
        asked_within(Duration::from_secs(60), client)
    }

    fn asked_within(patience: Duration, client: impl FnOnce(&mut std::net::TcpStream)) -> Option<Asked> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let mut stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (served, _) = listener.accept().await.unwrap();
            client(&mut stream);
            timeout(patience, has_asked(&served, "/healthz")).await.ok().map(|asked| asked.unwrap())
        })
    }

    #[test]
    fn who_has_sent_a_whole_head_has_asked() {
        let sends = |bytes: &'static [u8]| asked(move |stream| stream.write_all(bytes).unwrap());
        assert_eq!(sends(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"), Some(Asked::Page));
        assert_eq!(sends(b"GET / HTTP/1.1\n\n"), Some(Asked::Page));
        for health in [&b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n"[..], b"HEAD /healthz?verbose HTTP/1.0\r\n\r\n"] {
            assert_eq!(sends(health), Some(Asked::Health));
        }
        assert_eq!(sends(b"GET /healthzz HTTP/1.1\r\n\r\n"), Some(Asked::Page));
        assert_eq!(sends(b"POST /healthz HTTP/1.1\r\n\r\n"), Some(Asked::Page));
        let waits = |bytes: &'static [u8]| {
            asked_within(Duration::from_millis(300), move |stream| stream.write_all(bytes).unwrap())
        };
        assert_eq!(waits(b"GET / HTTP/1.1\r\nhost: a\r\n"), None);
        assert_eq!(sends(&[b'x'; MOST_PEEKED]), Some(Asked::Page), "it is answered with 431 later on");
        assert_eq!(waits(b""), None);
        assert_eq!(sends(b"\x16\x03\x01\0\x02ab"), Some(Asked::Page), "the first message of TLS is whole");
        assert_eq!(waits(b"\x16\x03\x01\0\x02a"), None);
        assert_eq!(waits(b"\x16\x03\x01"), None);
        let long = [&b"\x16\x03\x01\xff\xff"[..], &[0; MOST_PEEKED]].concat();
        assert_eq!(asked(|stream| stream.write_all(&long).unwrap()), Some(Asked::Page));
        assert_eq!(asked(|stream| stream.shutdown(Shutdown::Write).unwrap()), Some(Asked::Nothing));
        let half = |stream: &mut std::net::TcpStream| {
            stream.write_all(b"GET /").unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
        };
        assert_eq!(asked(half), Some(Asked::Page), "no more will come: it must not be looked at for ever");
    }

    #[test]
    fn a_head_in_pieces_is_whole_with_the_last() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let mut stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            stream.set_nodelay(true).unwrap();
            let (served, _) = listener.accept().await.unwrap();
            let writing = std::thread::spawn(move || {
                for byte in b"GET / HTTP/1.1\r\n\r\n" {
                    stream.write_all(&[*byte]).unwrap();
                    std::thread::sleep(Duration::from_millis(2));
                }
                stream
            });
            let asked = timeout(Duration::from_secs(60), has_asked(&served, "/healthz")).await;
            assert_eq!(asked.unwrap().unwrap(), Asked::Page);
            let mut head = [0; 64];
            let length = served.try_read(&mut head).unwrap();
            assert_eq!(&head[..length], b"GET / HTTP/1.1\r\n\r\n", "nothing was taken from it");
            drop(writing.join());
        });
    }
}
