//! Unusual requests: random bytes, and valid requests in pieces.

use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::histogram::Bounds;
use crate::mesh::Mesh;
use allocanary_server::connection;
use allocanary_testing::fuzz::holds;

/// The server's answer on one connection to these pieces, after which the client sends nothing.
fn exchange() -> impl Fn(&[&[u8]]) -> Vec<u8> {
    let options = Options { listen: "127.0.0.1:0".parse().unwrap(), ..Options::default() };
    let mesh = Shared::new(Mesh::new(Bounds::default(), 0, usize::MAX, "a"));
    let site = Server::bind(&options, mesh, Facts::of_this_build()).unwrap().site;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    move |pieces| {
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            client.set_nodelay(true).unwrap();
            let (served, _) = listener.accept().await.unwrap();
            let asking = async {
                for piece in pieces {
                    let _ = client.write_all(piece).await;
                    // So that the pieces come one by one.
                    tokio::task::yield_now().await;
                }
                let _ = client.shutdown().await;
                let mut answer = Vec::new();
                let _ = client.read_to_end(&mut answer).await;
                answer
            };
            tokio::join!(connection(served, site.clone(), LIMITS), asking).1
        })
    }
}

#[test]
fn fuzz_noise_does_no_harm() {
    let exchange = exchange();
    let beginnings = [
        &b""[..],
        b"GET ",
        b"GET /metrics HTTP/1.1\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\naccept: ",
        b"GET /peers?brief HTTP/1.0\r\n\r\n",
        b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n",
    ];
    let noise = prop::collection::vec(any::<u8>(), 0..600);
    holds(200, 1, (prop::sample::select(beginnings.to_vec()), noise), |(begin, noise)| {
        let answer = exchange(&[begin, &noise]);
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1."), "{}", String::from_utf8_lossy(&answer));
        let after = exchange(&[b"GET /healthz HTTP/1.0\r\n\r\n"]);
        assert!(after.starts_with(b"HTTP/1.0 200"), "{}", String::from_utf8_lossy(&after));
    });
}

#[test]
fn fuzz_a_request_is_the_same_however_it_is_cut() {
    let exchange = exchange();
    let request = b"GET /nothing?a HTTP/1.1\r\nhost: a\r\naccept: text/plain;q=0.5, */*\r\nconnection: close\r\n\r\n";
    holds(200, 1, prop::collection::btree_set(1..request.len(), 0..12), |cuts| {
        let mut pieces = Vec::new();
        let mut from = 0;
        for to in cuts.into_iter().chain([request.len()]) {
            pieces.push(&request[from..to]);
            from = to;
        }
        let answer = exchange(&pieces);
        assert!(answer.starts_with(b"HTTP/1.1 404"), "{}", String::from_utf8_lossy(&answer));
    });
}
