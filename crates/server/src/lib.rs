//! Internal to [allocanary](https://docs.rs/allocanary): this crate has no stable API, and any release may change it.
//!
//! An HTTP server for a page or two. In: connections of any client. Out: answers of a [`Site`], each within a limit of time.
//!
//! 1. Connections wait in the `lobby` until they have sent the whole head of a request. They need no buffer there. If too many wait, the
//!    oldest one is closed, so a client that sends nothing, or a byte a second, keeps nobody out.
//! 2. Requests for the state of health are answered at once. They need no place, so no crowd makes a probe fail.
//! 3. All other requests get one of a fixed number of `places`. If all are taken, the oldest connection is closed once it has had its share
//!    of time.
//! 4. A client that does not read its answer is dropped (`wire`).
//!
//! hyper speaks HTTP. Neither hyper nor a small crate on top of it limits the number of connections, so this crate does.

#![deny(clippy::print_stdout, clippy::print_stderr, clippy::dbg_macro)]

mod listen;
mod lobby;
mod places;
mod site;
#[cfg(feature = "tls")]
mod tls;
mod wire;

use std::convert::Infallible;
use std::io::{self, ErrorKind};
use std::net::TcpListener as StdListener;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};
use tokio::time::sleep;

pub use listen::listen;
pub use site::{Limits, Site};
pub use wire::PATIENCE;

use lobby::{Lobby, MOST_ASKED};
use wire::Wire;

/// The most bytes of a head. hyper answers 431 to more, and takes no smaller buffer.
const MOST_HEAD: usize = 8192;
/// The pause after the system refused a connection for lack of file descriptors or memory.
const BACK_OFF: Duration = Duration::from_millis(100);

/// Serves for ever. Wants a runtime with I/O and time. Returns only the error of the listening socket.
pub async fn serve<S: Site>(listener: StdListener, site: Arc<S>, limits: Limits) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let (door, asked) = mpsc::channel(MOST_ASKED);
    let crowded = Notify::new();
    tokio::select! {
        never = admit(listener, Lobby::new(door, site.clone(), limits), &crowded, &site) => match never {},
        () = places::give(asked, &crowded, &site, limits) => Ok(()),
    }
}

/// Accepts connections for ever. Each waits in the lobby until it has sent a request. If the system has no descriptor for one more, the
/// oldest connection without a request is closed. If all have sent one, `crowded` is notified.
async fn admit<S: Site>(listener: TcpListener, mut lobby: Lobby<S>, crowded: &Notify, site: &Arc<S>) -> Infallible {
    // Whether a connection was closed for lack of descriptors since the last one was accepted.
    let mut has_cut = false;
    loop {
        let cut = lobby.make_room().await;
        if cut > 0 {
            site.closed(cut);
        }
        match listener.accept().await {
            Ok((stream, _)) => {
                has_cut = false;
                lobby.enter(stream);
                // Lets the tasks of new and of closed connections run before the next one is accepted: there may be
                // thousands.
                tokio::task::yield_now().await;
            }
            Err(error) if is_of_one_connection(&error) => {}
            Err(_) => {
                // Closing a connection frees one descriptor. If this does not help, because the whole system has none left,
                // closing another one would not help either.
                if !std::mem::replace(&mut has_cut, true) {
                    match lobby.cut_oldest() {
                        true => site.closed(1),
                        false => crowded.notify_one(),
                    }
                }
                sleep(BACK_OFF).await;
            }
        }
    }
}

/// Whether the error belongs to one connection: its client closed it before it was accepted. The next connection may be fine.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::Interrupted)
}

/// Serves one connection. It ends when the client closes it, when a limit of hyper is reached, or when the caller drops this future.
pub async fn connection<S: Site>(stream: TcpStream, site: Arc<S>, limits: Limits) {
    // A page is written as a whole, so waiting for more data gains nothing.
    let _ = stream.set_nodelay(true);
    requests(Wire::new(stream), site, limits).await;
}

/// Serves one connection that has a place, by TLS if the site has a certificate.
async fn placed<S: Site>(stream: TcpStream, site: Arc<S>, limits: Limits) {
    #[cfg(feature = "tls")]
    if let Some(config) = site.tls() {
        return tls::connection(stream, config, site, limits).await;
    }
    connection(stream, site, limits).await;
}

/// Answers the requests on a connection.
async fn requests<S: Site>(wire: impl AsyncRead + AsyncWrite + Unpin, site: Arc<S>, limits: Limits) {
    let service = hyper::service::service_fn(move |request| {
        let site = site.clone();
        async move { Ok::<_, Infallible>(site.answer(request).await) }
    });
    // An error of one client's connection concerns only this client.
    let _ = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_buf_size(MOST_HEAD)
        .keep_alive(limits.keeps_alive)
        .serve_connection(TokioIo::new(wire), service)
        .await;
}

#[cfg(test)]
mod tests;
