//! What a server serves. In: requests. Out: answers.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::{Request, Response};

/// Who answers.
pub trait Site: Send + Sync + 'static {
    /// The path of the state of health, which is answered before all others. Its answer has to be short, and may not wait.
    const HEALTH: &'static str = "/healthz";

    /// Answers a request whose head was read.
    fn answer(&self, request: Request<Incoming>) -> impl Future<Output = Response<Full<Bytes>>> + Send;

    /// Is told how many connections were closed to make room for others.
    fn closed(&self, count: u64) {
        let _ = count;
    }

    /// Is told that a crowd of connections has gone, and with it the need for its memory.
    fn crowd_has_gone(&self) {}
}

/// What clients may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The time for the head of a request, and for the next request on a kept connection.
    pub head: Duration,
    /// The time for a whole connection, once it has a place: `None` if it ends only with its client.
    pub whole: Option<Duration>,
    /// Whether a connection may have more than one request.
    pub keeps_alive: bool,
}
