//! Compares the memory of a service with the limit in its manifest. The service has 1000 peers, and 500 clients ask for its
//! largest pages and do not read them.

use std::fs;
use std::io::{Read, Write};
use std::time::Duration;

use crate::canary::{Canary, failed};
use crate::check::{Check, Measure};
use crate::decision::Pair;
use crate::place::{Place, root};
use crate::problem::Problem;

pub const CHECK: Check = Check {
    name: "crowd",
    works: "a service with 500 clients that do not read their pages stays below the limit of memory in its manifest",
    broken: "it needs more",
    limit: 1.0,
    begin,
};

const PEERS: u32 = 1000;

/// The memory that 64 connections may use in the kernel, which charges it to the container: twice `SEND_BUFFER` of the
/// service's `src/web/server.rs` for each.
const SOCKETS_KIB: f64 = 64.0 * 2.0 * 64.0;

fn begin(place: &Place) -> Result<Measure, Problem> {
    // 64 buckets instead of 11 give 79 lines for each peer. This is three quarters of the 108 lines that a peer has
    // with all four protocols.
    let buckets: Vec<String> = (1..=64).map(|bound| format!("{}", f64::from(bound) / 1000.0)).collect();
    let buckets = format!("--buckets={}", buckets.join(","));
    let (place, limit) = (place.clone(), limit()?);
    Ok(Box::new(move || {
        let canary = Canary::start(&place, PEERS, &["--label-peer-ip", &buckets])?;
        // Not the sum of the counts: some peers answer twice before others answer once.
        let series = || canary.page().map_or(0, |page| page.matches("rtt_seconds_count{").count());
        canary.until("every peer has its series", || series() >= PEERS as usize)?;
        crowd(&canary);
        Ok(Pair { checked: canary.kib("status", "VmHWM:")? + SOCKETS_KIB, control: limit })
    }))
}

/// Connects in groups of ten clients. Each sends its requests and waits for the first bytes or for the end of its
/// connection.
fn crowd(canary: &Canary) {
    let (open, gzip) = ("accept: application/openmetrics-text\r\n", "accept-encoding: gzip\r\n");
    let asked =
        [("/metrics", ""), ("/metrics", open), ("/peers", ""), ("/mesh", ""), ("/metrics", gzip), ("/peers", gzip)];
    let mut clients = Vec::new();
    for at in 0..500 {
        let Ok(mut stream) = canary.connect() else { continue };
        let (path, headers) = asked[at % asked.len()];
        // Two requests: when the first page is sent, the service makes the next one, which is never read.
        let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\n{headers}\r\n");
        let _ = stream.write_all(request.repeat(2).as_bytes());
        clients.push(stream);
        if at % 10 == 9 {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    for client in &mut clients {
        let _ = client.read(&mut [0; 16]);
    }
}

/// The limit of memory in the manifest, in KiB.
fn limit() -> Result<f64, Problem> {
    let path = root("examples/kube_canary/deploy/base/daemonset.yaml");
    let manifest = fs::read_to_string(&path).map_err(|error| failed(format!("{}: {error}", path.display())))?;
    let limit =
        manifest.split("limits: {memory: ").nth(1).and_then(|rest| rest.split("Mi").next()?.parse::<f64>().ok());
    let limit = limit.ok_or_else(|| failed(format!("{}: wanted `limits: {{memory: ...Mi`", path.display())))?;
    Ok(limit * 1024.0)
}
