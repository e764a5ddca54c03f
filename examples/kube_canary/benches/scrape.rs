//! The cost of a scrape. In: servers with 8, 100 and 1,000 peers, each in a separate process, and 400 scrapes by a client
//! in another process. Out: median time, processor time, size of the page, and the server's resident memory before and
//! after.
//!
//! `cargo bench -p kube_canary --bench scrape`. With `-- --fleet 40 9200` it serves the pages of 40 canaries on
//! 127.0.1.1 to 127.0.1.40 instead, so that you can look at one.

#[path = "../tests/web/fixture.rs"]
#[allow(dead_code)]
mod fixture;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use kube_canary::options::Options;
use kube_canary::peer::Peer;
use kube_canary::web::{Facts, Server};

allocanary::install!(system, arena_max = 1);

const SCRAPES: usize = 400;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[1..] {
        ["--serve", peers, quantiles] => serve(peers.parse().expect("a number"), quantiles == "true"),
        ["--fleet", canaries, port, ..] => fleet(canaries.parse().expect("a number"), port.parse().expect("a port")),
        _ => bench(),
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn serve(peers: usize, quantiles: bool) {
    let options = Options { quantiles, ..fixture::options() };
    let before = resident("self");
    let server = Server::bind(&options, fixture::mesh(peers), Facts::of_this_build()).expect("a free port");
    println!("{} {}", server.address().expect("an address"), resident("self") - before);
    runtime().block_on(server.run()).expect("serves until it is killed");
}

fn fleet(canaries: u8, port: u16) {
    let address = |at: u8| Ipv4Addr::new(127, 0, 1, at);
    let peer = |at: u8| Peer {
        zone: ["zone-a", "zone-b", "zone-c"][usize::from(at) % 3].into(),
        cordoned: at == 17,
        ..Peer::on(address(at).into(), &format!("ip-10-20-{}-{}", at / 9, u32::from(at) * 37 % 251))
    };
    let runtime = runtime();
    let mut serving = Vec::new();
    for own in 1..=canaries {
        let others = (1..=canaries).filter(|at| *at != own).map(peer).collect();
        // One node that all others reach badly, one link that loses some probes, and a little noise.
        let broken = |other: u8| peer(other).address;
        let mesh = fixture::filled(others, |to| match to.address {
            lost if lost == broken(11) => 700,
            lossy if (lossy == broken(5) && own == 3) || (lossy == broken(3) && own == 5) => 120,
            other => u64::from(other == broken(own % 7 + 20)) * 15,
        });
        let options = Options {
            node: peer(own).node.to_string(),
            listen: SocketAddr::from((address(own), port)),
            peer_port: port,
            own_addresses: vec![address(own).into()],
            interval: Duration::from_secs(1),
            ..fixture::options()
        };
        // One canary that does not answer.
        if own != 8 || canaries == 8 {
            let _runtime = runtime.enter();
            serving.push(Server::bind(&options, mesh, Facts::of_this_build()).expect("a free port").run());
        }
    }
    runtime.block_on(async {
        let serving: Vec<_> = serving.into_iter().map(tokio::spawn).collect();
        for server in serving {
            let _ = server.await;
        }
    });
}

/// Resident memory of a process, in kB.
fn resident(pid: &str) -> i64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a process that lives");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("its memory");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("a number")
}

/// The processor time of a process's first thread so far. Other work of the machine does not change it.
fn spent_ms(pid: &str) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).expect("a process that lives");
    text.split(' ').next().and_then(|nanos| nanos.parse::<f64>().ok()).expect("a number") / 1e6
}

struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(peers: usize, quantiles: bool) -> (Served, SocketAddr, i64) {
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--serve", &peers.to_string(), &quantiles.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
    let (address, kib) = line.trim().split_once(' ').expect("two words");
    let (address, kib) = (address.parse().expect("an address"), kib.parse().expect("a number"));
    (Served(child), address, kib)
}

/// Sends one request on a connection that is kept. Returns the length of the answer's body.
fn scrape(stream: &mut BufReader<TcpStream>, head: &str, body: &mut Vec<u8>) -> usize {
    stream.get_mut().write_all(head.as_bytes()).expect("the server reads");
    let (mut line, mut length) = (String::new(), 0);
    loop {
        line.clear();
        stream.read_line(&mut line).expect("the server answers");
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.trim().parse().expect("a length");
        }
        if line == "\r\n" {
            break;
        }
    }
    body.resize(length, 0);
    stream.read_exact(body).expect("the whole page");
    length
}

fn bench() {
    println!(
        "{:>6} {:>9} {:>6} {:>10} {:>10} {:>10} {:>9} {:>9} {:>9} {:>9}",
        "peers", "shown as", "gzip", "page kB", "median ms", "CPU ms", "bind kB", "RSS kB", "after kB", "peak kB"
    );
    for (peers, quantiles) in [(8, false), (100, false), (1000, false), (1000, true)] {
        for gzip in ["", "accept-encoding: gzip\r\n"] {
            let (child, address, bind) = start(peers, quantiles);
            let pid = child.0.id().to_string();
            std::thread::sleep(Duration::from_millis(300));
            let (before, spent) = (resident(&pid), spent_ms(&pid));
            let stream = TcpStream::connect(address).expect("the server listens");
            stream.set_nodelay(true).expect("a socket option");
            let mut stream = BufReader::with_capacity(256 * 1024, stream);
            let head = format!("GET /metrics HTTP/1.1\r\nhost: canary\r\n{gzip}\r\n");
            let (mut body, mut length, mut peak) = (Vec::new(), 0, 0);
            let mut times: Vec<f64> = (0..SCRAPES)
                .map(|_| {
                    let begun = Instant::now();
                    length = scrape(&mut stream, &head, &mut body);
                    let taken = begun.elapsed().as_secs_f64() * 1e3;
                    peak = peak.max(resident(&pid));
                    taken
                })
                .collect();
            std::thread::sleep(Duration::from_millis(100));
            times.sort_by(f64::total_cmp);
            println!(
                "{peers:>6} {:>9} {:>6} {:>10.1} {:>10.3} {:>10.3} {bind:>9} {before:>9} {:>9} {peak:>9}",
                if quantiles { "quantiles" } else { "histogram" },
                if gzip.is_empty() { "no" } else { "yes" },
                length as f64 / 1e3,
                times[SCRAPES / 2],
                (spent_ms(&pid) - spent) / SCRAPES as f64,
                resident(&pid),
            );
        }
    }
}
