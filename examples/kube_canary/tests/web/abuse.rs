//! Tests the server with hostile clients: floods, slow readers, long lines. (Noise is in `src/web/requests_test.rs`.)

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::client::{connect, get, until_closed};
use crate::fixture::{mesh, options, serve};
use kube_canary::options::Options;

fn alive(server: SocketAddr) {
    assert_eq!(get(server, "/healthz").status, 200);
}

#[test]
fn five_hundred_clients_at_once_are_all_served() {
    for http_threads in [0, 3] {
        let server = serve(&Options { http_threads, ..options() }, mesh(8));
        let mut clients: Vec<TcpStream> = (0..500).map(|_| connect(server)).collect();
        for client in &mut clients {
            // A client that the server closed to make room for others. Then only the write or the read fails.
            let _ = client.write_all(b"GET /metrics HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
        }
        let served = clients.iter_mut().map(until_closed).filter(|answer| answer.starts_with(b"HTTP/1.1 200")).count();
        assert!(served >= 400, "{served} of 500 served");
        alive(server);
    }
}

#[test]
fn clients_that_do_nothing_make_room() {
    let shared = mesh(1);
    let server = serve(&options(), shared.clone());
    let idle: Vec<TcpStream> = (0..700).map(|_| connect(server)).collect();
    alive(server);
    assert!(shared.lock().tallies.connections_refused >= 100);
    drop(idle);
    assert!(get(server, "/metrics").text().contains("\nkube_canary_http_connections_refused_total 1"));
}

#[test]
fn a_hundred_kilobytes_of_request_line() {
    let server = serve(&options(), mesh(1));
    let mut stream = connect(server);
    let line = format!("GET /{} HTTP/1.1\r\nhost: a\r\n\r\n", "x".repeat(100_000));
    let _ = stream.write_all(line.as_bytes());
    let answer = until_closed(&mut stream);
    // The rest of the line may arrive at a closed socket. Its reset may overtake the answer.
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 431") || answer.starts_with(b"HTTP/1.1 414"));
    let mut stream = connect(server);
    stream.write_all(&line.as_bytes()[..9000]).unwrap();
    let answer = until_closed(&mut stream);
    assert!(answer.starts_with(b"HTTP/1.1 431"), "{}", String::from_utf8_lossy(&answer));
    alive(server);
}

#[test]
fn a_slow_reader_is_dropped_and_holds_up_nobody() {
    let server = serve(&options(), mesh(1000));
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.connect(&server.into()).unwrap();
    let mut slow = TcpStream::from(socket);
    slow.write_all(
        b"GET /metrics HTTP/1.1\r\nhost: a\r\n\r\nGET /metrics HTTP/1.1\r\nhost: a\r\n\r\n".repeat(8).as_slice(),
    )
    .unwrap();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(15) {
        slow.read_exact(&mut [0]).unwrap();
        alive(server);
        std::thread::sleep(Duration::from_millis(500));
    }
    // The client still gets the bytes that the kernel has buffered, up to the limit of its buffers. It does not get the
    // rest of sixteen pages.
    slow.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let (came, page) = (until_closed(&mut slow).len(), get(server, "/metrics").body.len());
    assert!(came < 512 << 10 && page > 1 << 20, "{came} bytes came, of pages of {page}");
}

#[test]
fn a_head_that_does_not_end_is_dropped() {
    let server = serve(&options(), mesh(1));
    let mut stream = connect(server);
    stream.write_all(b"GET /metrics HT").unwrap();
    let mut idle = connect(server);
    idle.write_all(b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    assert!(until_closed(&mut idle).starts_with(b"HTTP/1.1 200"), "kept for the next request, then closed");
    until_closed(&mut stream);
    alive(server);
}

#[test]
fn a_head_that_comes_a_byte_a_second_is_dropped() {
    let server = serve(&options(), mesh(1));
    let mut stream = connect(server);
    let begun = Instant::now();
    // A head must be complete within ten seconds, even if parts of it keep coming.
    let dropped =
        b"GET /healthz HTTP/1.1\r\nhost: a\r\naccept: ".iter().chain(std::iter::repeat(&b'x')).take(60).any(|byte| {
            std::thread::sleep(Duration::from_secs(1));
            alive(server);
            stream.write_all(&[*byte]).is_err()
        });
    assert!(dropped, "still taken after {} s", begun.elapsed().as_secs());
    assert!(!until_closed(&mut stream).starts_with(b"HTTP/1.1 200"));
}

#[test]
fn clients_that_hang_up_do_not_end_the_server() {
    let server = serve(&options(), mesh(300));
    for _ in 0..50 {
        let mut stream = connect(server);
        stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
        // The client closes with an unread answer. The server's next write gets a reset, or EPIPE.
        drop(stream);
    }
    alive(server);
}

#[test]
fn a_port_that_is_taken_is_an_error_that_says_so() {
    let taken = serve(&options(), mesh(0));
    let options = Options { listen: taken, ..options() };
    let facts = kube_canary::web::Facts::of_this_build();
    let error = kube_canary::web::Server::bind(&options, mesh(0), facts).expect_err("the port is taken");
    let said = error.to_string();
    assert!(said.contains(&taken.to_string()) && said.contains("--listen"), "{said}");
}

/// More slow clients than the server and the kernel's queue have room for. They never stop: each sends a byte now and then, and
/// connects again when it is closed.
#[test]
fn fourteen_hundred_slow_clients_do_not_keep_a_scrape_out() {
    const CLIENTS: usize = 1400;
    let shared = mesh(8);
    let server = serve(&options(), shared.clone());
    let over = AtomicBool::new(false);
    let crowd = |threads: usize| {
        let mut clients: Vec<Option<TcpStream>> = (0..CLIENTS / threads).map(|_| None).collect();
        while !over.load(Ordering::Relaxed) {
            for client in &mut clients {
                let trickled = client.as_mut().map(|stream| stream.write_all(b"G").is_ok());
                if trickled != Some(true) {
                    *client = begin(server);
                }
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    };
    std::thread::scope(|scope| {
        let crowds: Vec<_> = (0..4).map(|_| scope.spawn(|| crowd(4))).collect();
        let begun = Instant::now();
        while shared.lock().tallies.connections_refused < 1000 && begun.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(50));
        }
        let scrapes = || {
            let mut stream = connect(server);
            stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").ok()?;
            let answer = until_closed(&mut stream);
            answer.starts_with(b"HTTP/1.1 200").then_some(answer.len())
        };
        let served = (0..10).filter(|_| scrapes().is_some_and(|length| length > 1000)).count();
        over.store(true, Ordering::Relaxed);
        crowds.into_iter().for_each(|crowd| crowd.join().unwrap());
        let refused = shared.lock().tallies.connections_refused;
        assert!(refused >= 1000, "{refused} were cut: there was no crowd");
        assert_eq!(served, 10, "scrapes of 10, though {CLIENTS} trickle");
    });
}

/// One of many clients; `None` if it cannot connect because the kernel's queue is full.
fn begin(server: SocketAddr) -> Option<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&server, Duration::from_millis(200)).ok()?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: a\r\nx: ").ok()?;
    Some(stream)
}
