//! Listens and answers. In: connections of anybody. Out: pages, one a connection, for a few connections at a time with a limit of time.

use std::convert::Infallible;
use std::net::TcpListener as StdListener;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

/// Connections served at a time; more wait in the kernel's queue. They share the pages, so that one costs little.
const MOST_OPEN: usize = 64;
/// The time for the head of a request.
const HEAD_WITHIN: Duration = Duration::from_secs(3);
/// The time for a whole connection: whoever reads no faster gets half a page.
pub const WITHIN: Duration = Duration::from_secs(10);
/// The most bytes of a head. hyper takes no smaller buffer.
const MOST_HEAD: usize = 8192;
/// The pause after the system refused a connection for lack of file descriptors or memory.
const BACK_OFF: Duration = Duration::from_millis(100);

/// A page: its path, its type, and who has it.
pub struct HttpPage {
    /// `/metrics`.
    pub path: &'static str,
    /// The type of its content.
    pub kind: &'static str,
    /// Who has it.
    pub get: Get,
}

/// Who has a page. No function waits: all pages are served by one thread.
pub enum Get {
    /// Tells it. The error is told with status 500.
    Now(Box<dyn Fn() -> Result<Bytes, String> + Send + Sync>),
    /// Asks somebody for it, by the request's query. Whoever asks longer than a connection may last gets nothing.
    Later(Box<dyn Fn(&str) -> Later + Send + Sync>),
}

/// A page that comes later.
pub type Later = Pin<Box<dyn Future<Output = Result<Bytes, PageRefusal>> + Send>>;

/// Why there is no page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageRefusal {
    /// What the client sees first.
    pub status: StatusCode,
    /// A sentence.
    pub why: String,
}

/// What clients may take.
#[derive(Clone, Copy, Debug)]
struct Limits {
    open: usize,
    head: Duration,
    whole: Duration,
}

/// Serves for ever. Runs on the thread of a runtime that has I/O and time.
pub async fn serve(listener: StdListener, pages: Arc<Vec<HttpPage>>) -> std::io::Result<()> {
    serve_within(listener, pages, Limits { open: MOST_OPEN, head: HEAD_WITHIN, whole: WITHIN }).await
}

async fn serve_within(listener: StdListener, pages: Arc<Vec<HttpPage>>, limits: Limits) -> std::io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let room = Arc::new(Semaphore::new(limits.open));
    loop {
        // Closed never: it lives as long as this loop.
        let Ok(permit) = room.clone().acquire_owned().await else { return Ok(()) };
        match listener.accept().await {
            Ok((stream, _)) => {
                let pages = pages.clone();
                tokio::spawn(async move {
                    let _ = timeout(limits.whole, connection(stream, pages, limits.head)).await;
                    drop(permit);
                });
            }
            Err(_) => sleep(BACK_OFF).await,
        }
    }
}

async fn connection(stream: TcpStream, pages: Arc<Vec<HttpPage>>, head: Duration) {
    let service = service_fn(move |request| {
        let pages = pages.clone();
        async move { Ok::<_, Infallible>(answer(&request, &pages).await) }
    });
    // An error of one client's connection concerns only this client.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head)
        .max_buf_size(MOST_HEAD)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn answer<B>(request: &Request<B>, pages: &[HttpPage]) -> Response<Full<Bytes>> {
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return refused(StatusCode::METHOD_NOT_ALLOWED, "wanted GET");
    }
    let Some(page) = pages.iter().find(|page| page.path == request.uri().path()) else {
        let known: String = pages.iter().map(|page| format!(" {}", page.path)).collect();
        return refused(StatusCode::NOT_FOUND, &format!("wanted one of:{known}"));
    };
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
    response(status, "text/plain; charset=utf-8", format!("{why}\n").into())
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
    use std::io::{ErrorKind, Read, Write};

    /// Longer than any test.
    const LONG: Duration = Duration::from_secs(600);

    /// A listener that nobody serves yet.
    fn bound() -> (StdListener, std::net::SocketAddr) {
        let listener = StdListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    fn served(listener: StdListener, limits: Limits) {
        let pages = vec![
            HttpPage {
                path: "/metrics",
                kind: "text/plain",
                get: Get::Now(Box::new(|| Ok(Bytes::from_static(b"x 1\n")))),
            },
            HttpPage {
                path: "/never",
                kind: "text/plain",
                get: Get::Later(Box::new(|_| Box::pin(std::future::pending()))),
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
            runtime.block_on(serve_within(listener, Arc::new(pages), limits))
        });
    }

    fn sent(address: std::net::SocketAddr, request: &str) -> std::net::TcpStream {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }

    fn answered(mut stream: std::net::TcpStream) -> String {
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn ask(address: std::net::SocketAddr, request: &str) -> String {
        answered(sent(address, request))
    }

    #[test]
    fn pages_are_served_and_what_is_none_is_told() {
        let (listener, address) = bound();
        served(listener, Limits { open: 2, head: LONG, whole: LONG });
        let get = |path: &str| ask(address, &format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"));
        let page = get("/metrics");
        assert!(page.starts_with("HTTP/1.1 200") && page.ends_with("\r\n\r\nx 1\n"), "{page}");
        assert!(get("/").contains("404") && get("/").ends_with("wanted one of: /metrics /never /late /broken\n"));
        assert!(get("/late?a=b").ends_with("\r\n\r\na=b"));
        assert!(get("/broken").starts_with("HTTP/1.1 500"));
        assert!(
            ask(address, "POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n").starts_with("HTTP/1.1 405")
        );
        assert!(ask(address, "nonsense\r\n\r\n").starts_with("HTTP/1.1 400"));
    }

    /// Whether the server has closed it.
    fn is_closed(mut stream: &std::net::TcpStream) -> bool {
        stream.set_nonblocking(true).unwrap();
        !matches!(stream.read(&mut [0; 64]), Err(error) if error.kind() == ErrorKind::WouldBlock)
    }

    #[test]
    fn a_crowd_that_says_nothing_does_not_keep_others_out() {
        let (listener, address) = bound();
        let crowd: Vec<_> = (0..7).map(|_| sent(address, "")).collect();
        let last = sent(address, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        served(listener, Limits { open: 2, head: Duration::from_millis(20), whole: LONG });
        let page = answered(last);
        assert!(page.ends_with("x 1\n"), "{page}");
        // It stood behind them. When it was its turn, at most one of them was still there.
        let open = crowd.iter().filter(|stream| !is_closed(stream)).count();
        assert!(open <= 1, "{open} of them were served beside it");
    }

    #[test]
    fn one_that_says_nothing_and_one_that_waits_for_a_page_are_shown_out() {
        let (listener, address) = bound();
        let waits = sent(address, "GET /never HTTP/1.1\r\nHost: x\r\n\r\n");
        let silent = sent(address, "");
        served(listener, Limits { open: 1, head: LONG, whole: Duration::from_millis(20) });
        assert_eq!((answered(waits), answered(silent)), (String::new(), String::new()));
    }
}
