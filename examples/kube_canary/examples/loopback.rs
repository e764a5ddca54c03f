//! What the prober itself adds: N peers on loopback for some seconds. In: numbers of peers and seconds. Out: a line for
//! each number: what was sent, lost, and the round-trip times, all of which are this host's own.
//!
//! `cargo run --release -p kube_canary --example loopback -- 20 8 100 1000`

use std::net::Ipv4Addr;
use std::time::Duration;

use kube_canary::histogram::Bounds;
use kube_canary::mesh::{Mesh, Shared};
use kube_canary::options::Options;
use kube_canary::peer::Peer;
use kube_canary::prober::Prober;
use kube_canary::protocol::{Loss, Protocol};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let numbers = std::env::args().skip(1).map(|text| text.parse()).collect::<Result<Vec<u32>, _>>()?;
    let (seconds, counts) = match numbers.split_first() {
        Some((seconds, counts)) if !counts.is_empty() => (*seconds, counts),
        _ => (20, &[8, 100, 1000][..]),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for count in counts {
        for protocol in [Protocol::Icmp, Protocol::Udp] {
            let options = Options { protocols: Some(vec![protocol]), udp_port: 0, ..Options::default() };
            // Steps of 15 %, from 1 us.
            let bounds: Vec<f64> = (0..64).map(|step| 1e-6 * 1.15_f64.powi(step)).collect();
            let mut mesh = Mesh::new(Bounds::from_seconds(&bounds)?, 0, usize::MAX, "example");
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

fn line(shared: &Shared, protocol: Protocol, count: u32) -> String {
    let mesh = shared.lock();
    let books = || mesh.entries().filter_map(|(_, entry)| entry.books[protocol as usize].as_ref());
    let total = |number: fn(&kube_canary::book::Book) -> u64| books().map(|book| number(book)).sum::<u64>();
    let mut times: Vec<u64> = books().filter_map(|book| book.rtt().quantile(0.5)).collect();
    times.sort_unstable();
    let middle = times.get(times.len() / 2).copied().unwrap_or(0);
    format!(
        "{count} peers by {protocol}: sent {}, replies {}, lost {} (unreachable {}), late {}, in flight {}; median of the peers' median round \
         trips {:.1} us; dropped by the kernel {}",
        total(|book| book.sent()),
        total(|book| book.replies()),
        total(|book| book.lost_in_all()),
        total(|book| book.lost_for(Loss::Unreachable)),
        total(|book| book.late()),
        total(|book| book.in_flight().into()),
        middle as f64 / 1e3,
        mesh.tallies.socket_drops
    )
}
