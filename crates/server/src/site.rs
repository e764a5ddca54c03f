//! The pages of a server. In: requests. Out: answers.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::{Request, Response};

/// Answers the requests of a server.
pub trait Site: Send + Sync + 'static {
    /// The path of the state of health. It is answered before all other requests, so its answer has to be short and must not wait.
    const HEALTH: &'static str = "/healthz";

    /// Answers a request. Its head has been read, its body has not.
    fn answer(&self, request: Request<Incoming>) -> impl Future<Output = Response<Full<Bytes>>> + Send;

    /// The certificate for the next connection, with its settings. All is plain HTTP without one.
    #[cfg(feature = "tls")]
    fn tls(&self) -> Option<std::sync::Arc<rustls::ServerConfig>> {
        None
    }

    /// Called after connections were closed to make room for others. `count` is their number.
    fn closed(&self, count: u64) {
        let _ = count;
    }

    /// Called when a crowd of connections has gone: the memory that it needed can be given back.
    fn crowd_has_gone(&self) {}
}

/// The limits of each connection.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The time for the head of a request, and for the next request on a kept connection.
    pub head: Duration,
    /// The time for a whole connection, once it has a place. `None`: only the client ends it.
    pub whole: Option<Duration>,
    /// Whether a connection may have more than one request.
    pub keeps_alive: bool,
}
