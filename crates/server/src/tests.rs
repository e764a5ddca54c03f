//! A server and its crowds.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::{Request, Response};

use super::*;

/// Longer than any test.
const LONG: Duration = Duration::from_secs(600);

/// Answers all but `/never`, and counts who has a place for that, and who was closed for others.
#[derive(Default)]
struct Counts {
    never: AtomicU64,
    closed: AtomicU64,
}

impl Site for Counts {
    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        if request.uri().path() == "/never" {
            self.never.fetch_add(1, Ordering::Relaxed);
            std::future::pending::<()>().await;
        }
        Response::new(Full::new(Bytes::from(request.uri().path().to_string())))
    }

    fn closed(&self, count: u64) {
        self.closed.fetch_add(count, Ordering::Relaxed);
    }
}

fn served(limits: Limits) -> (SocketAddr, Arc<Counts>) {
    let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let (address, site) = (listener.local_addr().unwrap(), Arc::new(Counts::default()));
    let counts = site.clone();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(serve(listener, counts, limits))
    });
    (address, site)
}

fn patient() -> Limits {
    Limits { head: LONG, whole: None, keeps_alive: true }
}

fn sent(address: SocketAddr, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = sent(address, &format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer
}

#[test]
fn the_state_of_health_needs_no_place() {
    let (address, site) = served(patient());
    let never = |_| sent(address, "GET /never HTTP/1.1\r\nHost: x\r\n\r\n");
    let crowd: Vec<TcpStream> = (0..places::MOST_OPEN).map(never).collect();
    while site.never.load(Ordering::Relaxed) < places::MOST_OPEN as u64 {
        std::thread::sleep(Duration::from_millis(5));
    }
    let answer = get(address, "/healthz");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("\r\n\r\n/healthz"), "{answer}");
    assert!(answer.contains("connection: close"), "{answer}");
    assert_eq!(site.closed.load(Ordering::Relaxed), 0, "all places are still taken");
    assert!(get(address, "/metrics").ends_with("/metrics"));
    assert_eq!(site.closed.load(Ordering::Relaxed), 1, "a page wants a place, which the oldest of them had");
    drop(crowd);
}

#[test]
fn a_crowd_that_says_nothing_keeps_nobody_out() {
    // One that has room to wait, which takes no place from anybody, and one that has not, whose oldest are closed.
    for (count, wanted) in [(lobby::MOST_WAITING - 10, 0), (lobby::MOST_WAITING + 200, 200)] {
        let (address, site) = served(patient());
        let crowd: Vec<TcpStream> =
            (0..count).map(|at| sent(address, if at % 2 == 0 { "" } else { "GET /metrics HT" })).collect();
        for path in ["/metrics", "/healthz"] {
            assert!(get(address, path).ends_with(path));
        }
        let closed = site.closed.load(Ordering::Relaxed);
        assert!((wanted..=wanted + 2).contains(&closed), "{closed} of {count}");
        drop(crowd);
    }
}

#[test]
fn one_that_says_nothing_and_one_that_waits_for_a_page_are_shown_out() {
    let short = Duration::from_millis(20);
    let (address, _) = served(Limits { head: short, whole: Some(short), keeps_alive: false });
    for request in ["", "GET /never HTTP/1.1\r\nHost: x\r\n\r\n"] {
        let mut answer = Vec::new();
        let _ = sent(address, request).read_to_end(&mut answer);
        assert_eq!(answer, b"");
    }
}
