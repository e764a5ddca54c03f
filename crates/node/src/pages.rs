//! What a page of the agent is: its path, its type, its source, and why there may be none.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use hyper::StatusCode;

/// The time for a whole connection. A client that reads too slowly gets part of a page.
pub const WITHIN: Duration = Duration::from_secs(10);

/// The path of the state of health.
pub const HEALTH: &str = "/healthz";

/// A page: its path, its content type, and its source.
pub struct HttpPage {
    /// The path, such as `/metrics`.
    pub path: &'static str,
    /// The type of its content.
    pub kind: &'static str,
    /// The source of its content.
    pub get: Get,
}

/// The source of a page. No function here may block: one thread serves all pages.
pub enum Get {
    /// Returns the page at once. An error has status 500.
    Now(Box<dyn Fn() -> Result<Bytes, String> + Send + Sync>),
    /// Starts work on the page that the request's query asks for. The client gets nothing if the work lasts longer than a connection may.
    Later(Box<dyn Fn(&str) -> Later + Send + Sync>),
}

/// A page that is ready later.
pub type Later = Pin<Box<dyn Future<Output = Result<Bytes, PageRefusal>> + Send>>;

/// Why there is no page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageRefusal {
    /// The HTTP status.
    pub status: StatusCode,
    /// The reason, as a sentence.
    pub why: String,
}
