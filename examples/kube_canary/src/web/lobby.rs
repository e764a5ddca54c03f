//! Where connections wait until they have asked for something. In: connections, of whomever. Out: those that have sent a whole
//! request, in the order in which they did.
//!
//! Only these get one of the server's places: a client that sends its request a byte at a time keeps nobody waiting. Nothing is read
//! here, so that a connection that waits has no buffer: the kernel is asked what has come, and keeps it.

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

/// Connections that wait here; whoever has asked for nothing goes, the oldest first, when there are more.
const MOST_WAITING: usize = 512;
/// Connections that have asked, and wait for a place.
pub(super) const MOST_ASKED: usize = 256;
/// If the head of a request does not end within this many bytes, it is served before it is complete: its sender had to
/// send as many bytes for that.
const MOST_PEEKED: usize = 2048;
/// How long to wait before the next look for room, if all connections here have sent a request.
const AGAIN: Duration = Duration::from_millis(10);

/// One who waits. Its task holds the other end of `end`.
#[derive(Debug)]
struct Waiting {
    end: oneshot::Sender<()>,
    asked: Arc<AtomicBool>,
}

/// Those who wait.
#[derive(Debug)]
pub(super) struct Lobby {
    waiting: VecDeque<Waiting>,
    /// Where those go who have asked.
    door: mpsc::Sender<TcpStream>,
    /// For a whole head.
    patience: Duration,
}

impl Lobby {
    /// Empty. Gives those who have asked to `door`.
    pub(super) fn new(door: mpsc::Sender<TcpStream>, patience: Duration) -> Self {
        Lobby { waiting: VecDeque::new(), door, patience }
    }

    /// Room for one more. Says how many had to go for it.
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

    /// Ends the connection that has waited longest of those that have not asked; false where all have.
    pub(super) fn cut_oldest(&mut self) -> bool {
        while let Some(at) = self.waiting.iter().position(|waiting| !waiting.asked.load(Ordering::Relaxed)) {
            if self.waiting.remove(at).is_some_and(|waiting| waiting.end.send(()).is_ok()) {
                return true;
            }
        }
        false
    }

    /// One more waits.
    pub(super) fn enter(&mut self, stream: TcpStream) {
        let (end, ended) = oneshot::channel();
        let asked = Arc::new(AtomicBool::new(false));
        self.waiting.push_back(Waiting { end, asked: asked.clone() });
        let (door, patience) = (self.door.clone(), self.patience);
        tokio::spawn(async move {
            let pass = async {
                if let Ok(Ok(true)) = timeout(patience, has_asked(&stream)).await {
                    asked.store(true, Ordering::Relaxed);
                    // It fails where the server ends, which is this connection's end, too.
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

/// Waits until there is a whole head, or what must be answered without; false where the client is gone.
async fn has_asked(stream: &TcpStream) -> io::Result<bool> {
    loop {
        // Before the look: what comes after it makes it ready again.
        let ready = stream.ready(Interest::READABLE).await?;
        let look = || match peek(stream)? {
            // No more will come: whoever reads it finds out.
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

/// True with a whole head, false where the other side has closed without one, none where more is to come.
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

    /// Whether a client that does this has asked; none is "not yet".
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
