//! One client's connection. In: a socket. Out: the same socket, which is closed if the client does not read its answer.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

/// The time that a client has to read its answer, from the moment when the socket is first full. Prometheus itself waits ten seconds for a
/// whole scrape by default.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// A socket with a deadline for each answer.
#[derive(Debug)]
pub(crate) struct Wire {
    stream: TcpStream,
    /// Runs from the first full socket until everything is written.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl Wire {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Wire { stream, deadline: None }
    }

    fn within_deadline(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if written.is_pending() && self.deadline.is_none() {
            self.deadline = Some(Box::pin(sleep(PATIENCE)));
        }
        // A client that reads a byte a second makes the socket ready from time to time. That does not extend the deadline.
        match self.deadline.as_mut().map(|deadline| deadline.as_mut().poll(context)) {
            Some(Poll::Ready(())) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            _ => written,
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.within_deadline(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.within_deadline(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// hyper flushes once it has written the whole answer, so the deadline ends here.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.deadline = None;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
