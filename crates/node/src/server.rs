//! Listens and answers. In: connections of anybody. Out: pages, one a connection, for a few connections at a time with a limit of time.

use std::convert::Infallible;
use std::net::TcpListener as StdListener;
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
const WITHIN: Duration = Duration::from_secs(10);
/// The most bytes of a head. hyper takes no smaller buffer.
const MOST_HEAD: usize = 8192;
/// The pause after the system refused a connection for lack of file descriptors or memory.
const BACK_OFF: Duration = Duration::from_millis(100);

/// A page: its path, its type, and who has it. The error is told with status 500.
pub struct Page {
    /// `/metrics`.
    pub path: &'static str,
    /// The type of its content.
    pub kind: &'static str,
    /// Tells it. It waits for nobody: all are served by one thread.
    pub get: Box<dyn Fn() -> Result<Bytes, String> + Send + Sync>,
}

/// Serves for ever. Runs on the thread of a runtime that has I/O and time.
pub async fn serve(listener: StdListener, pages: Arc<Vec<Page>>) -> std::io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let room = Arc::new(Semaphore::new(MOST_OPEN));
    loop {
        // Closed never: it lives as long as this loop.
        let Ok(permit) = room.clone().acquire_owned().await else { return Ok(()) };
        match listener.accept().await {
            Ok((stream, _)) => {
                let pages = pages.clone();
                tokio::spawn(async move {
                    let _ = timeout(WITHIN, connection(stream, pages)).await;
                    drop(permit);
                });
            }
            Err(_) => sleep(BACK_OFF).await,
        }
    }
}

async fn connection(stream: TcpStream, pages: Arc<Vec<Page>>) {
    let service = service_fn(move |request| {
        let answer = answer(&request, &pages);
        async move { Ok::<_, Infallible>(answer) }
    });
    // An error of one client's connection concerns only this client.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .max_buf_size(MOST_HEAD)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

fn answer<B>(request: &Request<B>, pages: &[Page]) -> Response<Full<Bytes>> {
    let text = "text/plain; charset=utf-8";
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return response(StatusCode::METHOD_NOT_ALLOWED, text, Bytes::from_static(b"wanted GET\n"));
    }
    match pages.iter().find(|page| page.path == request.uri().path()) {
        Some(page) => match (page.get)() {
            Ok(made) => response(StatusCode::OK, page.kind, made),
            Err(error) => response(StatusCode::INTERNAL_SERVER_ERROR, text, format!("{error}\n").into()),
        },
        None => {
            let known: String = pages.iter().map(|page| format!(" {}", page.path)).collect();
            response(StatusCode::NOT_FOUND, text, format!("wanted one of:{known}\n").into())
        }
    }
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
            Page { path: "/metrics", kind: "text/plain", get: Box::new(|| Ok(Bytes::from_static(b"x 1\n"))) },
            Page { path: "/broken", kind: "text/plain", get: Box::new(|| Err("no".into())) },
        ];
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(serve(listener, Arc::new(pages)))
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
        assert!(get("/").contains("404") && get("/").ends_with("wanted one of: /metrics /broken\n"));
        assert!(get("/broken").starts_with("HTTP/1.1 500"));
        assert!(
            ask(address, "POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n").starts_with("HTTP/1.1 405")
        );
        assert!(ask(address, "nonsense\r\n\r\n").starts_with("HTTP/1.1 400"));
    }

    #[test]
    fn a_crowd_that_says_nothing_does_not_keep_others_out_for_long() {
        let address = served();
        let crowd: Vec<_> = (0..MOST_OPEN + 20).map(|_| std::net::TcpStream::connect(address).unwrap()).collect();
        let begun = std::time::Instant::now();
        let page = ask(address, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(page.ends_with("x 1\n"), "{page}");
        // The first of them are shown out before, and the others meanwhile.
        assert!(begun.elapsed() >= HEAD_WITHIN / 2, "nobody stood before it: {:?}", begun.elapsed());
        assert!(begun.elapsed() < WITHIN * 2, "{:?}", begun.elapsed());
        drop(crowd);
    }
}
