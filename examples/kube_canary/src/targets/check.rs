//! One check of a target. In: a target. Out: success, or the step that failed and the reason.

use std::io;
use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper::{Request, header};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::target::{Ask, Place, Target};
use crate::discovery::Resolver;
use crate::error::causes;
use crate::prober::tcp;
use crate::tallies::Outcome;

const AGENT: &str = concat!("kube_canary/", env!("CARGO_PKG_VERSION"));
/// The most addresses of a name that are tried.
const MOST_TRIED: usize = 3;

type Wrong = (Outcome, String);

/// Checks a target. For HTTP every status below 500 is an answer: a target that asks for a login is working.
pub(super) async fn check(target: &Target, resolver: &Result<Resolver, String>) -> Result<(), Wrong> {
    match &target.ask {
        Ask::Dns(name) => resolve(name, resolver).await.map(drop),
        Ask::Tcp(place) => connect(place, resolver).await.map(drop),
        Ask::Http { place, path, tls: false } => get(connect(place, resolver).await?, place, path).await,
        #[cfg(feature = "kubernetes")]
        Ask::Http { place, path, tls: true } => {
            let stream = connect(place, resolver).await?;
            let stream = super::tls::over(stream, &place.host).await.map_err(|why| (Outcome::Tls, why))?;
            get(stream, place, path).await
        }
        #[cfg(not(feature = "kubernetes"))]
        Ask::Http { .. } => Err((Outcome::Tls, "built without TLS".into())),
    }
}

async fn resolve(name: &str, resolver: &Result<Resolver, String>) -> Result<Vec<IpAddr>, Wrong> {
    let resolver = resolver.as_ref().map_err(|why| (Outcome::Dns, why.clone()))?;
    let found = resolver.addresses(name).await.map_err(|why| (Outcome::Dns, why))?;
    if found.is_empty() { Err((Outcome::Dns, format!("{name} has no addresses"))) } else { Ok(found) }
}

async fn connect(place: &Place, resolver: &Result<Resolver, String>) -> Result<TcpStream, Wrong> {
    let addresses = match place.host.parse() {
        Ok(address) => vec![address],
        Err(_) => resolve(&place.host, resolver).await?,
    };
    let mut last = String::new();
    for address in addresses.into_iter().take(MOST_TRIED) {
        match tcp::connect(SocketAddr::new(address, place.port)).await {
            Ok((stream, _)) => return Ok(stream),
            Err(error) => last = format!("{address}: {error}"),
        }
    }
    Err((Outcome::Connect, last))
}

async fn get(stream: impl AsyncRead + AsyncWrite + Unpin, place: &Place, path: &str) -> Result<(), Wrong> {
    let broken = |error: &dyn std::error::Error| (Outcome::Http, causes(error));
    let (mut sender, connection) = http1::Builder::new()
        .max_buf_size(16 * 1024)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| broken(&error))?;
    let host = if place.host.contains(':') { format!("[{}]", place.host) } else { place.host.clone() };
    let request = Request::get(path)
        .header(header::HOST, format!("{host}:{}", place.port))
        .header(header::USER_AGENT, AGENT)
        .header(header::CONNECTION, "close")
        .body(Empty::<Bytes>::new())
        .map_err(|error| broken(&error))?;
    tokio::pin!(connection);
    let answer = async { sender.send_request(request).await.map_err(|error| broken(&error)) };
    tokio::pin!(answer);
    let answer = tokio::select! {
        biased;
        answer = &mut answer => answer?,
        ended = &mut connection => {
            ended.map_err(|error| broken(&error))?;
            answer.await?
        }
    };
    match answer.status() {
        status if status.is_server_error() => {
            Err((Outcome::Http, io::Error::other(format!("it says {status}")).to_string()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
#[path = "check_test.rs"]
mod tests;
