//! TLS of one connection. In: a connection that has sent a whole first message. Out: its requests are answered. One that speaks plain
//! HTTP is told what is wanted.

use std::sync::Arc;

use rustls::ServerConfig;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::lobby::{HANDSHAKE, MOST_PEEKED};
use crate::wire::Wire;
use crate::{Limits, Site, requests};

/// The answer to plain HTTP.
const WANTED: &[u8] =
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n\
    wanted https://, found http://\n";

/// Serves one connection with this certificate.
pub(crate) async fn connection<S: Site>(
    mut stream: TcpStream,
    config: Arc<ServerConfig>,
    site: Arc<S>,
    limits: Limits,
) {
    let _ = stream.set_nodelay(true);
    let mut first = [0];
    match timeout(limits.head, stream.peek(&mut first)).await {
        Ok(Ok(1..)) if first[0] == HANDSHAKE => {}
        Ok(Ok(1..)) => {
            // With unread bytes the kernel would reset the connection, and the client might not see the answer.
            let _ = stream.try_read(&mut [0; MOST_PEEKED]);
            let _ = timeout(limits.head, stream.write_all(WANTED)).await;
            return;
        }
        _ => return,
    }
    // An error of one client's connection concerns only this client.
    let accepted = timeout(limits.head, TlsAcceptor::from(config).accept(Wire::new(stream))).await;
    if let Ok(Ok(stream)) = accepted {
        requests(stream, site, limits).await;
    }
}
