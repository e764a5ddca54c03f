//! Serves the agent's pages. In: requests of any client. Out: pages, one for each connection, within a limit of time.

use std::net::TcpListener as StdListener;
use std::sync::Arc;
use std::time::Duration;

use allocanary_server::{Limits, Site};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Method, Request, Response, StatusCode};
use rustls::ServerConfig;

use crate::certificate::Certificate;
use crate::gate::Gate;
use crate::pages::{Get, HEALTH, HttpPage, PageRefusal, WITHIN};

/// The time for the head of a request.
const HEAD_WITHIN: Duration = Duration::from_secs(3);

/// Who may have pages, and how they get there.
#[derive(Default)]
pub struct Guard {
    /// Who says who may have them. Everybody may without it.
    pub gate: Option<Gate>,
    /// The certificate for TLS. All is plain HTTP without it.
    pub certificate: Option<Arc<Certificate>>,
}

/// Serves for ever. Wants a runtime with I/O and time.
pub async fn serve(listener: StdListener, pages: Vec<HttpPage>, guard: Guard) -> std::io::Result<()> {
    let limits = Limits { head: HEAD_WITHIN, whole: Some(WITHIN), keeps_alive: false };
    allocanary_server::serve(listener, Arc::new(Pages { pages, guard }), limits).await
}

struct Pages {
    pages: Vec<HttpPage>,
    guard: Guard,
}

impl Site for Pages {
    const HEALTH: &'static str = HEALTH;

    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        answer(&request, &self.pages, self.guard.gate.as_ref()).await
    }

    fn tls(&self) -> Option<Arc<ServerConfig>> {
        self.guard.certificate.as_ref().map(|certificate| certificate.config())
    }
}

async fn answer<B>(request: &Request<B>, pages: &[HttpPage], gate: Option<&Gate>) -> Response<Full<Bytes>> {
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return refused(StatusCode::METHOD_NOT_ALLOWED, "wanted GET");
    }
    let Some(page) = pages.iter().find(|page| page.path == request.uri().path()) else {
        let known: String = pages.iter().map(|page| format!(" {}", page.path)).collect();
        return refused(StatusCode::NOT_FOUND, &format!("wanted one of:{known}"));
    };
    // A probe has no token.
    if let Some(gate) = gate.filter(|_| page.path != HEALTH)
        && let Err(PageRefusal { status, why }) = gate.admit(request.headers(), page.path).await
    {
        return refused(status, &why);
    }
    let made = match &page.get {
        Get::Now(get) => get().map_err(|why| PageRefusal { status: StatusCode::INTERNAL_SERVER_ERROR, why }),
        Get::Later(ask) => ask(request.uri().query().unwrap_or_default()).await,
    };
    match made {
        Ok(made) => response(StatusCode::OK, page.kind, made),
        Err(PageRefusal { status, why }) => refused(status, &why),
    }
}

fn refused(status: StatusCode, why: &str) -> Response<Full<Bytes>> {
    let mut response = response(status, "text/plain; charset=utf-8", format!("{why}\n").into());
    if status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

fn response(status: StatusCode, kind: &'static str, text: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    fn served() -> std::net::SocketAddr {
        let listener = StdListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let pages = vec![
            HttpPage {
                path: "/metrics",
                kind: "text/plain",
                get: Get::Now(Box::new(|| Ok(Bytes::from_static(b"x 1\n")))),
            },
            HttpPage {
                path: "/late",
                kind: "text/plain",
                get: Get::Later(Box::new(|query| {
                    let query = Bytes::from(query.to_string());
                    Box::pin(async move { Ok(query) })
                })),
            },
            HttpPage { path: "/broken", kind: "text/plain", get: Get::Now(Box::new(|| Err("no".into()))) },
        ];
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(serve(listener, pages, Guard::default()))
        });
        address
    }

    fn ask(address: std::net::SocketAddr, request: &str) -> String {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    #[test]
    fn pages_are_served_and_what_is_none_is_told() {
        let address = served();
        let get = |path: &str| ask(address, &format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"));
        let page = get("/metrics");
        assert!(page.starts_with("HTTP/1.1 200") && page.ends_with("\r\n\r\nx 1\n"), "{page}");
        assert!(get("/").contains("404") && get("/").ends_with("wanted one of: /metrics /late /broken\n"));
        assert!(get("/late?a=b").ends_with("\r\n\r\na=b"));
        assert!(get("/broken").starts_with("HTTP/1.1 500"));
        assert!(
            ask(address, "POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n").starts_with("HTTP/1.1 405")
        );
        assert!(ask(address, "nonsense\r\n\r\n").starts_with("HTTP/1.1 400"));
    }
}
