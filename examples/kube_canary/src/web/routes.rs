//! The routes of the web server. In: a request. Out: its answer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use allocanary_server::PATIENCE;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE,
    HeaderValue, RETRY_AFTER, TRANSFER_ENCODING, VARY, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use prometheus_client::encoding::text::encode_registry;
use prometheus_client::registry::Registry;

use super::checks::sources;
use super::exposition::{Exposition, Format};
use super::gather::Gatherer;
use super::json::{self, Identity};
use super::labels::Labels;
use super::pages::{Kind, Pages};
use super::press::{Press, Refusal};
use super::quiet::Quiet;
use super::readiness::ready;
use super::series::Series;
use super::{negotiation, page, series};
use crate::clock;
use crate::discovery::NODE_HEADER;
use crate::mesh::Shared;
use crate::say::say;

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";
const HERE: &str = "There is:\n  /         the mesh, to look at\n  /metrics  for Prometheus\n  /peers    this canary's peers, JSON\n  \
                    /mesh     every canary's peers, JSON\n  /cluster_health  503 while a node or a link has a fault, which it names\n  /healthz  200 while it lives\n  /readyz   200 once it knows its peers\n";

const TOO_LARGE: &str = "This page is larger than the memory set aside for pages. Ask for gzip (curl --compressed), or have fewer \
                         series: --series basic, one --protocol, or --peers-max.\n";

/// The data for the answers.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) mesh: Shared,
    pub(super) registry: Registry,
    pub(super) pages: Pages,
    pub(super) gatherer: Arc<Gatherer>,
    pub(super) identity: Identity,
    pub(super) interval: Duration,
    pub(super) series: Series,
    /// Whether peers have native histograms.
    pub(super) native: bool,
    pub(super) labels: Mutex<Labels>,
    /// Whether the message about too many series was already written.
    pub(super) said_too_large: AtomicBool,
    /// Notified of requests, for the task that waits for idle threads.
    pub(super) quiet: Quiet,
    /// The start, by the canary's clock.
    pub(super) started_ns: u64,
}

type Answer = Response<Full<Bytes>>;

impl allocanary_server::Site for Site {
    async fn answer(&self, request: Request<Incoming>) -> Answer {
        self.quiet.request();
        let headers = request.headers();
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, "GET and HEAD only\n");
            answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return closing(answer);
        }
        let length = headers.get(CONTENT_LENGTH).is_some_and(|length| length != "0");
        if length || headers.contains_key(TRANSFER_ENCODING) {
            return closing(text(StatusCode::PAYLOAD_TOO_LARGE, "a request with a body is not read\n"));
        }
        match (request.uri().path(), request.uri().query()) {
            ("/metrics", _) => self.metrics(headers),
            ("/healthz", _) => {
                let mut answer = text(StatusCode::OK, "alive\n");
                // Peers that know only our address learn our name here.
                if let Ok(name) = HeaderValue::from_str(&self.identity.node) {
                    answer.headers_mut().insert(NODE_HEADER, name);
                }
                answer
            }
            ("/readyz", _) => match self.ready() {
                // If a source fails and the peers are known, the canary stays ready, but reports the failure.
                Ok(()) => {
                    let checks = sources(&self.mesh.lock().tallies);
                    let failing = checks.into_iter().filter(|check| !check.ok).map(|check| check.says + "\n");
                    text(StatusCode::OK, "ready\n".to_string() + &failing.collect::<String>())
                }
                Err(why) => text(StatusCode::SERVICE_UNAVAILABLE, why + "\n"),
            },
            ("/peers", Some("brief")) => {
                self.json(Kind::Brief, headers, |press| json::brief(press, &self.mesh.lock(), &self.identity))
            }
            ("/peers", _) => {
                let ready = self.ready();
                self.json(Kind::Peers, headers, |press| {
                    json::peers(press, &self.mesh.lock(), &self.identity, self.running().as_secs(), ready)
                })
            }
            ("/mesh", _) => {
                let picture = self.gatherer.picture().await;
                self.json(Kind::Mesh, headers, |press| serde_json::to_writer(press, &*picture))
            }
            ("/cluster_health", _) => {
                let picture = self.gatherer.picture().await;
                let mut answer =
                    self.json(Kind::Health, headers, |press| serde_json::to_writer(press, picture.verdict()));
                if answer.status() == StatusCode::OK && !picture.verdict().ok {
                    *answer.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
                }
                answer
            }
            ("/", _) => html(),
            (path, _) => {
                let shown: String = path.chars().take(80).collect();
                text(StatusCode::NOT_FOUND, format!("{shown} is not here. {HERE}"))
            }
        }
    }

    fn closed(&self, count: u64) {
        self.mesh.lock().tallies.connections_refused += count;
    }

    fn crowd_has_gone(&self) {
        let _ = allocanary::tuning::purge();
    }
}

impl Site {
    fn running(&self) -> Duration {
        Duration::from_nanos(clock::now().saturating_sub(self.started_ns))
    }

    fn ready(&self) -> Result<(), String> {
        ready(&self.mesh.lock(), self.running(), self.interval)
    }

    fn metrics(&self, headers: &HeaderMap) -> Answer {
        let (format, gzip) = (negotiation::format(headers, self.native), negotiation::gzip(headers));
        let mut page = self.metrics_page(format, gzip, true);
        if matches!(page, Err(Refusal::TooLarge)) && gzip {
            // A client without gzip can repeat the request with gzip. A client with gzip gets the page without the
            // series of peers: the information that there are too many is better than a permanent error.
            let known = {
                let mut mesh = self.mesh.lock();
                mesh.tallies.pages_without_peers += 1;
                mesh.entries().count()
            };
            if !self.said_too_large.swap(true, Ordering::Relaxed) {
                say(&format!(
                    "{known} peers have more series than fit into a page of /metrics: it is served without those of peers. \
                     Set --peers-max, or probe by fewer protocols"
                ));
            }
            page = self.metrics_page(format, gzip, false);
        }
        self.page(page, format.content_type(), gzip)
    }

    fn metrics_page(&self, format: Format, gzip: bool, with_peers: bool) -> Result<Bytes, Refusal> {
        self.pages.get(Kind::Metrics(format), gzip, |press| {
            let mut exposition = Exposition::new(press, format);
            if with_peers {
                // One lock for all peers, so that the sums agree in every scrape.
                let (mesh, mut labels) = (self.mesh.lock(), self.labels.lock().unwrap_or_else(PoisonError::into_inner));
                labels.read(&mesh);
                series::write(&mut exposition, &mesh, &labels, self.series);
            }
            // Neither the exposition nor our collectors ever fail.
            let _ = encode_registry(&mut exposition, &self.registry);
            exposition.finish();
        })
    }

    fn json(
        &self,
        kind: Kind,
        headers: &HeaderMap,
        write: impl FnOnce(&mut Press) -> serde_json::Result<()>,
    ) -> Answer {
        let gzip = negotiation::gzip(headers);
        // The press accepts everything, and all keys of our maps are texts.
        let page = self.pages.get(kind, gzip, |press| drop(write(press)));
        self.page(page, JSON, gzip)
    }

    fn page(&self, page: Result<Bytes, Refusal>, content_type: &'static str, gzip: bool) -> Answer {
        let why = match page {
            Ok(page) => return encoded(page, content_type, gzip),
            Err(why) => why,
        };
        self.mesh.lock().tallies.pages_refused += 1;
        match why {
            Refusal::Crowded => {
                let why =
                    "other pages are still being read and there is no room for one more; come again, or ask for gzip\n";
                let mut answer = text(StatusCode::SERVICE_UNAVAILABLE, why);
                // After this time the present slow readers are dropped, although others may have come.
                answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(PATIENCE.as_secs()));
                answer
            }
            Refusal::TooLarge => text(StatusCode::INSUFFICIENT_STORAGE, TOO_LARGE),
        }
    }

    /// Renders metrics once, so that the memory of a scrape is allocated before the first one.
    pub(super) fn warm(&self) {
        for format in [Format::Classic, Format::OpenMetrics] {
            let mut headers = HeaderMap::new();
            headers.insert(hyper::header::ACCEPT, HeaderValue::from_static(format.content_type()));
            headers.insert(hyper::header::ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
            drop(self.metrics(&headers));
        }
    }
}

fn text(status: StatusCode, text: impl Into<Bytes>) -> Answer {
    let mut answer = respond(text.into(), TEXT);
    *answer.status_mut() = status;
    answer
}

fn closing(mut answer: Answer) -> Answer {
    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    answer
}

fn encoded(page: Bytes, content_type: &'static str, gzip: bool) -> Answer {
    let mut answer = respond(page, content_type);
    answer.headers_mut().insert(VARY, HeaderValue::from_static("Accept, Accept-Encoding"));
    if gzip {
        answer.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    answer
}

fn html() -> Answer {
    let mut answer = respond(Bytes::from_static(page::HTML.as_bytes()), "text/html; charset=utf-8");
    answer.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(page::POLICY));
    answer
}

fn respond(body: Bytes, content_type: &'static str) -> Answer {
    let mut answer = Response::new(Full::new(body));
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}
