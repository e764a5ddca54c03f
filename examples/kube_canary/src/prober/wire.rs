//! The connection of an HTTP probe. In: a socket. Out: the same socket, and the time from the request to the answer.
//!
//! The arrival time of an answer is the kernel's receive time, as for ICMP and UDP: with a thousand peers, this process
//! serves other probes before it reads the answer. TCP has receive times since Linux 4.14. Without them, the time at
//! which the answer was read counts.

use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

use super::{receive, socket, stamps};
use crate::clock;

/// When the request was sent, and when the last bytes of the answer came, by the steady clock. 0 means not yet.
#[derive(Debug, Default)]
pub struct Exchange {
    asked: AtomicU64,
    answered: AtomicU64,
    looked: AtomicBool,
}

impl Exchange {
    /// From the request to the answer.
    pub fn took(&self) -> Duration {
        let (asked, answered) = (self.asked.load(Ordering::Relaxed), self.answered.load(Ordering::Relaxed));
        Duration::from_nanos(answered.saturating_sub(asked))
    }

    /// Whether the arrival time is only the time at which the answer was read, because the kernel gave no usable one.
    pub fn looked(&self) -> bool {
        self.looked.load(Ordering::Relaxed)
    }

    /// Notes that the first byte of the request leaves now.
    fn ask(&self) {
        let _ = self.asked.compare_exchange(0, clock::now(), Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Notes that bytes were read that arrived at `wall`, by the wall clock. The wall clock may have been set meanwhile by more than the
    /// answer took. Then `wall` is before the request or in the future, and the time of reading is used. A smaller step makes the answer
    /// look faster or slower, and is not corrected.
    fn answer(&self, wall: Option<u64>) {
        let (now, read) = stamps::both();
        let waited = wall.and_then(|wall| read.checked_sub(wall));
        let came = waited.and_then(|waited| now.checked_sub(waited));
        let asked = self.asked.load(Ordering::Relaxed);
        // The two clocks are not read at exactly the same moment.
        let came = came.filter(|came| came + stamps::EXACT >= asked).map(|came| came.max(asked));
        self.looked.store(came.is_none(), Ordering::Relaxed);
        self.answered.store(came.unwrap_or(now), Ordering::Relaxed);
    }
}

/// A socket that notes both times.
#[derive(Debug)]
pub struct Wire<'a> {
    stream: TcpStream,
    exchange: &'a Exchange,
}

impl<'a> Wire<'a> {
    /// A wire around this socket.
    pub fn new(stream: TcpStream, exchange: &'a Exchange) -> Self {
        socket::receive_times(stream.as_raw_fd());
        Wire { stream, exchange }
    }
}

impl AsyncRead for Wire<'_> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let socket = self.stream.as_raw_fd();
        loop {
            ready!(self.stream.poll_read_ready(context))?;
            let bytes = buffer.initialize_unfilled();
            match self
                .stream
                .try_io(Interest::READABLE, || receive::message(socket, false, bytes, &mut [0; receive::CONTROL]))
            {
                Ok(received) => {
                    if received.length > 0 {
                        self.exchange.answer(received.wall);
                    }
                    buffer.advance(received.length);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for Wire<'_> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.exchange.ask();
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::*;

    #[test]
    fn a_clock_that_is_set_meanwhile_makes_no_answer_early_or_late() {
        let exchange = Exchange::default();
        clock::now();
        std::thread::sleep(Duration::from_millis(2));
        let before = clock::now();
        exchange.ask();
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
        // Valid however long this thread was stopped.
        let most = Duration::from_nanos(clock::now() - before) + Duration::from_millis(5);
        let took = |wall| {
            exchange.answer(wall);
            (exchange.took(), exchange.looked())
        };
        std::thread::sleep(most + Duration::from_millis(20));
        let (time, looked) = took(Some(wall));
        assert!(time < most && !looked, "it came at once, not after {time:?}");
        let hour = 3_600_000_000_000;
        for unlikely in [None, Some(0), Some(wall - hour), Some(wall + hour)] {
            let (time, looked) = took(unlikely);
            assert!(time >= Duration::from_millis(20) && looked, "{unlikely:?}");
        }
    }
}
