//! The place where connections wait until they have sent a request. In: connections of any client. Out: those that have sent a
//! whole request, in this order.
//!
//! Only these get one of the server's places, so a client that sends its request a byte at a time does not delay others. Nothing is
//! read here, so a waiting connection needs no buffer: the bytes are only peeked at, and stay in the kernel.

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

/// The most connections that wait here. If there are more, the oldest one without a request is closed.
const MOST_WAITING: usize = 512;
/// The most connections that have sent a request and wait for a place.
pub(super) const MOST_ASKED: usize = 256;
/// If the head of a request does not end within this many bytes, the connection gets a place before the head is
/// complete: sending so many bytes has a cost for the client.
const MOST_PEEKED: usize = 2048;
/// How long to wait before the next look for room, if all connections here have sent a request.
const AGAIN: Duration = Duration::from_millis(10);

/// A waiting connection. Its task has the other end of `end`.
#[derive(Debug)]
struct Waiting {
    end: oneshot::Sender<()>,
    asked: Arc<AtomicBool>,
}

/// The waiting connections.
#[derive(Debug)]
pub(super) struct Lobby {
    waiting: VecDeque<Waiting>,
    /// Receives the connections that have sent a request.
    door: mpsc::Sender<TcpStream>,
    /// The longest wait for a whole head.
    patience: Duration,
}

impl Lobby {
    /// An empty lobby. It sends connections with a request to `door`.
    pub(super) fn new(door: mpsc::Sender<TcpStream>, patience: Duration) -> Self {
        Lobby { waiting: VecDeque::new(), door, patience }
    }

    /// Makes room for one more connection. Returns how many were closed for this.
    pub(super) async fn make_room(&mut self) -> u64 {
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
    pub(super) fn cut_oldest(&mut self) -> bool {
        while let Some(at) = self.waiting.iter().position(|waiting| !waiting.asked.load(Ordering::Relaxed)) {
            if self.waiting.remove(at).is_some_and(|waiting| waiting.end.send(()).is_ok()) {
                return true;
            }
        }
        false
    }

    /// Adds a connection.
    pub(super) fn enter(&mut self, stream: TcpStream) {
        let (end, ended) = oneshot::channel();
        let asked = Arc::new(AtomicBool::new(false));
        self.waiting.push_back(Waiting { end, asked: asked.clone() });
        let (door, patience) = (self.door.clone(), self.patience);
        tokio::spawn(async move {
            let pass = async {
                if let Ok(Ok(true)) = timeout(patience, has_asked(&stream)).await {
                    asked.store(true, Ordering::Relaxed);
                    // It fails only when the server ends, which also ends this connection.
                    let _ = door.send(stream).await;
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

/// Waits until there is a whole head, or so many bytes that it must be answered without. Returns false if the client
/// has closed.
async fn has_asked(stream: &TcpStream) -> io::Result<bool> {
    loop {
        // Cleared before the peek: bytes that come later make the socket ready again.
        let ready = stream.ready(Interest::READABLE).await?;
        let look = || match peek(stream)? {
            // No more bytes will come; the server notices this when it reads.
            None if ready.is_read_closed() => Ok(true),
            None => Err(io::ErrorKind::WouldBlock.into()),
            Some(asked) => Ok(asked),
        };
        match stream.try_io(Interest::READABLE, look) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            looked => return looked,
        }
    }
}

/// True with a whole head; false if the other side has closed without one; `None` if more must come.
fn peek(stream: &TcpStream) -> io::Result<Option<bool>> {
    let mut bytes = [MaybeUninit::<u8>::uninit(); MOST_PEEKED];
    let length = SockRef::from(stream).peek(&mut bytes)?;
    // SAFETY: the call has written so many bytes.
    let bytes = unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast::<u8>(), length) };
    let ends = |end: &[u8]| bytes.windows(end.len()).any(|piece| piece == end);
    Ok(match length {
        0 => Some(false),
        _ if length == MOST_PEEKED || ends(b"\n\r\n") || ends(b"\n\n") => Some(true),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::Shutdown;

    use super::*;

    /// Whether a client that does this has sent a request; `None` means not yet.
    fn asked(client: impl FnOnce(&mut std::net::TcpStream)) -> Option<bool> {
        asked_within(Duration::from_secs(60), client)
    }

    fn asked_within(patience: Duration, client: impl FnOnce(&mut std::net::TcpStream)) -> Option<bool> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let mut stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (served, _) = listener.accept().await.unwrap();
            client(&mut stream);
            timeout(patience, has_asked(&served)).await.ok().map(|asked| asked.unwrap_or(false))
        })
    }

    #[test]
    fn who_has_sent_a_whole_head_has_asked() {
        let sends = |bytes: &'static [u8]| asked(move |stream| stream.write_all(bytes).unwrap());
        assert_eq!(sends(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"), Some(true));
        assert_eq!(sends(b"GET / HTTP/1.1\n\n"), Some(true));
        let waits = |bytes: &'static [u8]| {
            asked_within(Duration::from_millis(300), move |stream| stream.write_all(bytes).unwrap())
        };
        assert_eq!(waits(b"GET / HTTP/1.1\r\nhost: a\r\n"), None);
        assert_eq!(sends(&[b'x'; MOST_PEEKED]), Some(true), "it is answered with 431 later on");
        assert_eq!(waits(b""), None);
        assert_eq!(asked(|stream| stream.shutdown(Shutdown::Write).unwrap()), Some(false));
        let half = |stream: &mut std::net::TcpStream| {
            stream.write_all(b"GET /").unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
        };
        assert_eq!(asked(half), Some(true), "no more will come: it must not be looked at for ever");
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
            assert!(timeout(Duration::from_secs(60), has_asked(&served)).await.unwrap().unwrap());
            let mut head = [0; 64];
            let length = served.try_read(&mut head).unwrap();
            assert_eq!(&head[..length], b"GET / HTTP/1.1\r\n\r\n", "nothing was taken from it");
            drop(writing.join());
        });
    }
}
