//! Measures the time that the prober itself adds: N peers on loopback for some seconds. In: numbers of peers and
//! seconds. Out: a line for each number and protocol: probes sent and lost, and the round-trip times, which are caused
//! only by this host.
//!
//! The kernel answers ICMP and the TCP handshake. The prober's own thread answers UDP, as in every canary. A canary's web
//! server answers HTTP on another thread, and its time is part of the figure. With 1 peer there is no queue.
//!
//! `cargo run --release -p kube_canary --example loopback -- 20 1 8 100 1000`

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use kube_canary::histogram::Bounds;
use kube_canary::mesh::{Mesh, Shared};
use kube_canary::options::Options;
use kube_canary::peer::Peer;
use kube_canary::prober::Prober;
use kube_canary::protocol::{Loss, Protocol};
use kube_canary::web::{Facts, Server};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let numbers = std::env::args().skip(1).map(|text| text.parse()).collect::<Result<Vec<u32>, _>>()?;
    let (seconds, counts) = match numbers.split_first() {
        Some((seconds, counts)) if !counts.is_empty() => (*seconds, counts),
        _ => (20, &[1, 8, 100, 1000][..]),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let peer_port = serve()?.port();
    for count in counts {
        for protocol in Protocol::ALL {
            let options = Options { protocols: Some(vec![protocol]), udp_port: 0, peer_port, ..Options::default() };
            let mut mesh = Mesh::new(Bounds::default(), 0, usize::MAX, "example");
            mesh.update("flags", (0..*count).map(|at| Peer::at(Ipv4Addr::from(0x7f00_0101 + at).into())).collect(), 0);
            let shared = Shared::new(mesh);
            runtime.block_on(async {
                let prober = Prober::open(&options, shared.clone())?;
                tokio::select! {
                    ended = prober.run() => ended,
                    () = tokio::time::sleep(Duration::from_secs(seconds.into())) => Ok(()),
                }
            })?;
            println!("{}", line(&shared, protocol, *count));
        }
    }
    Ok(())
}

/// A canary's web server on all addresses of this host.
fn serve() -> Result<SocketAddr, Box<dyn std::error::Error>> {
    let options = Options { listen: (Ipv4Addr::UNSPECIFIED, 0).into(), ..Options::default() };
    let mesh = Shared::new(Mesh::new(Bounds::default(), 0, usize::MAX, "example"));
    let server = Server::bind(&options, mesh, Facts::of_this_build())?;
    let address = server.address()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::spawn(move || runtime.block_on(server.run()));
    Ok(address)
}

fn line(shared: &Shared, protocol: Protocol, count: u32) -> String {
    let mesh = shared.lock();
    let books = || mesh.entries().filter_map(|(_, entry)| entry.books[protocol as usize].as_ref());
    let total = |number: fn(&kube_canary::book::Book) -> u64| books().map(|book| number(book)).sum::<u64>();
    let middle = |quantile| {
        let mut times: Vec<u64> = books().filter_map(|book| book.latest().quantile(quantile)).collect();
        times.sort_unstable();
        times.get(times.len() / 2).copied().unwrap_or(0) as f64 / 1e3
    };
    format!(
        "{count} peers by {protocol}: sent {}, replies {}, lost {} (unreachable {}), late {}, in flight {}; round trips of the middle \
         peer: median {:.1} us, slowest of the last 64 {:.1} us; skipped {}; dropped by the kernel {}",
        total(|book| book.sent()),
        total(|book| book.replies()),
        total(|book| book.lost_in_all()),
        total(|book| book.lost_for(Loss::Unreachable)),
        total(|book| book.late()),
        total(|book| book.in_flight().into()),
        middle(0.5),
        middle(1.0),
        mesh.tallies.probes_skipped,
        mesh.tallies.socket_drops
    )
}
