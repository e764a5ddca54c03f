//! Code that the tests share. In: numbers of peers, options. Out: a prober that runs in this process, and a sum of its
//! books.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

use allocanary_testing::ports::free_port;
use kube_canary::error::{Error, Result};
use kube_canary::mesh::{Mesh, Shared};
use kube_canary::options::Options;
use kube_canary::peer::Peer;
use kube_canary::prober::Prober;
use kube_canary::protocol::Protocol;

/// This many addresses of the loopback network.
pub fn loopback(peers: u32) -> Vec<Peer> {
    (0..peers).map(|number| Peer::at(Ipv4Addr::from(0x7f00_0101 + number).into())).collect()
}

/// Options for `peers` under one protocol.
pub fn options(peers: Vec<Peer>, protocol: Protocol, interval: Duration) -> Options {
    Options {
        node: "test".into(),
        interval,
        timeout: interval * 8,
        protocols: Some(vec![protocol]),
        udp_port: free_port(),
        peers,
        probe_self: true,
        ..Options::default()
    }
}

/// The mesh of those options, with its peers.
pub fn mesh(options: &Options) -> Shared {
    let mut mesh =
        Mesh::new(options.bounds.clone(), options.grace.as_nanos() as u64, options.most_probed, &options.ring_name());
    mesh.update("flags", options.peers.clone(), 0);
    Shared::new(mesh)
}

/// Runs a prober during `during`, and ends it afterwards. `None`, with a message, if ICMP is not permitted here.
pub fn probe<T>(options: &Options, shared: &Shared, during: impl AsyncFnOnce() -> T) -> Option<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let prober = match opened(options, shared) {
            Ok(prober) => prober,
            Err(error @ Error::NoIcmp { .. }) => {
                allocanary_testing::skipped::skipped(error);
                return None;
            }
            Err(error) => panic!("{error}"),
        };
        tokio::select! {
            ended = prober.run() => panic!("the prober ended: {ended:?}"),
            done = during() => Some(done),
        }
    })
}

fn opened(options: &Options, shared: &Shared) -> Result<Prober> {
    Prober::open(options, shared.clone())
}

/// The sum of all books.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    pub books: u64,
    pub sent: u64,
    pub replies: u64,
    pub lost: u64,
    pub in_flight: u64,
    pub late: u64,
    pub duplicates: u64,
    pub fewest: u64,
    pub most: u64,
}

/// Adds up the books of a protocol, and checks that the numbers of each book add up.
pub fn sum(shared: &Shared, protocol: Protocol) -> Sum {
    let mesh = shared.lock();
    let mut sum = Sum { fewest: u64::MAX, ..Sum::default() };
    for book in mesh.entries().filter_map(|(_, entry)| entry.books[protocol as usize].as_ref()) {
        assert_eq!(book.sent(), book.replies() + book.lost_in_all() + u64::from(book.in_flight()));
        sum.books += 1;
        sum.sent += book.sent();
        sum.replies += book.replies();
        sum.lost += book.lost_in_all();
        sum.in_flight += u64::from(book.in_flight());
        sum.late += book.late();
        sum.duplicates += book.duplicates();
        sum.fewest = sum.fewest.min(book.sent());
        sum.most = sum.most.max(book.sent());
    }
    sum
}

/// An address.
pub fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// A web server that answers like a canary, after a delay; returns its port.
pub fn server(after: Duration) -> u16 {
    server_that_says("200 OK", after)
}

/// The same, with another status.
pub fn server_that_says(status: &'static str, after: Duration) -> u16 {
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let answer = move |mut stream: TcpStream| {
        let mut request = [0; 1024];
        if let Ok(length) = stream.read(&mut request)
            && request[..length].starts_with(b"GET /healthz HTTP/1.1\r\n")
        {
            std::thread::sleep(after);
            let _ = stream.write_all(format!("HTTP/1.1 {status}\r\ncontent-length: 3\r\n\r\nok\n").as_bytes());
        }
    };
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            if after.is_zero() {
                answer(stream);
            } else {
                std::thread::spawn(move || answer(stream));
            }
        }
    });
    port
}
