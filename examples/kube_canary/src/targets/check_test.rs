use std::io::{Read, Write};
use std::net::TcpListener;

use super::*;

/// A server that answers each connection with that text; gives its port.
fn server(answer: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            // The first message of each of these clients is one piece, whatever its protocol.
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    port
}

fn outcome(target: &str) -> Result<(), Wrong> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let resolver = || {
        // No server answers there, as if it were dead.
        let dead = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        Resolver::of_server(dead)
    };
    runtime.block_on(async { check(&Target::parse(target).unwrap(), &resolver()).await })
}

#[test]
fn each_step_that_fails_is_told_apart() {
    let fine = server("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    let forbidden = server("HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n");
    let broken = server("HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n");
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let step = |target: String| outcome(&target);
    assert_eq!(step(format!("tcp:127.0.0.1:{fine}")), Ok(()));
    assert_eq!(step(format!("http://127.0.0.1:{fine}/")), Ok(()));
    assert_eq!(step(format!("http://127.0.0.1:{forbidden}/")), Ok(()), "it is there");
    let (at, why) = step(format!("http://127.0.0.1:{broken}/a")).unwrap_err();
    assert!(at == Outcome::Http && why.contains("503"), "{why}");
    let (at, why) = step(format!("tcp:127.0.0.1:{closed}")).unwrap_err();
    assert!(at == Outcome::Connect && why.contains("refused"), "{why}");
    for target in ["dns:nobody.test.", "tcp:nobody.test.:80", "http://nobody.test./"] {
        let (at, why) = step(target.into()).unwrap_err();
        assert!(at == Outcome::Dns && why.contains("nobody.test"), "{why}");
    }
    #[cfg(feature = "kubernetes")]
    {
        let (at, _) = step(format!("https://127.0.0.1:{fine}/")).unwrap_err();
        assert_eq!(at, Outcome::Tls, "a server that speaks no TLS");
    }
}
