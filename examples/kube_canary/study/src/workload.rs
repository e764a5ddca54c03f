//! `canary`: the network canary probes peers on loopback and is scraped.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use allocanary_cell::workload::{Moment, Outcome, Setup, Workload, WorkloadStage, parameter};
use allocanary_facts::setting::SettingKind;
use kube_canary::canary;
use kube_canary::options::Options;
use kube_canary::peer::Peer;
use tokio::sync::oneshot;

use crate::scrape;

/// The workload.
pub const WORKLOAD: Workload = Workload {
    name: "canary",
    about: "the network canary probes peers on loopback and is scraped by several at once",
    operation: "scrape",
    parameters: &[
        parameter("peers", COUNT, "100", "canaries that it probes"),
        parameter(
            "servers",
            SettingKind::Number { min: 0, max: 4096 },
            "0",
            "web server threads; 0 is one for each core",
        ),
        parameter("scrapes", COUNT, "400", "gzipped scrapes, over as many connections as there are cores"),
        parameter("interval", WAIT, "250ms", "time from one probe of a peer to the next"),
        parameter("settle", WAIT, "500ms", "rest before `idle` is read"),
        parameter(
            "threads_give_back",
            SettingKind::Flag,
            "false",
            "whether server threads give their freed memory back 200 ms after the last scrape",
        ),
    ],
    seconds: 1.5,
    grows_with: &[],
    rests: None,
    run,
};

const COUNT: SettingKind = SettingKind::Number { min: 1, max: 100_000 };
const WAIT: SettingKind = SettingKind::Time { min: 1, max: 600_000 };

fn run(setup: &Setup, stage: &mut dyn WorkloadStage) -> Result<Outcome, String> {
    let (peers, scrapes) = (setup.number("peers")?, setup.number("scrapes")?);
    let (interval, idle) = (setup.time("interval")?, setup.time("settle")?);
    let servers = match setup.number("servers")? {
        0 => setup.threads,
        servers => servers,
    };
    let options = Options {
        node: "study".into(),
        interval,
        timeout: interval,
        listen: (Ipv4Addr::LOCALHOST, 0).into(),
        udp_port: free_port()?,
        http_threads: servers,
        threads_give_back: setup.flag("threads_give_back")?,
        peers: loopback(peers),
        // The option with which the table in the README was measured.
        all_series: true,
        label_addresses: true,
        ..Options::default()
    };
    let (address_of, address) = mpsc::channel::<SocketAddr>();
    let (stop, stopped) = oneshot::channel::<()>();
    let running = std::thread::Builder::new().name("canary".into()).spawn(move || {
        let stopped = async {
            let _ = stopped.await;
            Ok(())
        };
        let ready = |address| {
            let _ = address_of.send(address);
        };
        canary::run_until(options, |line| eprintln!("{line}"), ready, stopped)
    });
    let running = running.map_err(|error| format!("starting the canary's thread: {error}"))?;
    let ended = |running: std::thread::JoinHandle<kube_canary::error::Result<()>>| match running.join() {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("the canary panicked".to_string()),
    };
    let Ok(address) = address.recv() else {
        return ended(running).and_then(|()| Err("the canary ended at once".to_string()));
    };
    // By then every peer was probed once, and its answer is in its book.
    std::thread::sleep(interval * 2 + Duration::from_millis(200));
    stage.mark(Moment::Filled, 0);
    let start = Instant::now();
    let laps = scraped(address, scrapes, setup.threads)?;
    let active = start.elapsed();
    stage.mark(Moment::Peak, 0);
    setup.timer.record(&laps);
    std::thread::sleep(idle);
    stage.mark(Moment::Idle, 0);
    let _ = stop.send(());
    ended(running)?;
    stage.mark(Moment::Released, 0);
    stage.mark(Moment::Purged, 0);
    let scrapes = laps.len() as u64;
    Ok(Outcome { operations: scrapes, active, timed_every: 1, verified: scrapes })
}

/// `count` addresses of this host at which only the kernel's echo answers.
fn loopback(count: usize) -> Vec<Peer> {
    let address = |number: u32| Ipv4Addr::from(u32::from(Ipv4Addr::new(127, 1, 0, 1)) + number);
    (0..count as u32).map(|number| Peer::on(address(number).into(), &format!("node-{number}"))).collect()
}

/// A port that another canary on this host does not have.
fn free_port() -> Result<u16, String> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).and_then(|socket| socket.local_addr());
    socket.map(|address| address.port()).map_err(|error| format!("a free UDP port: {error}"))
}

/// Lets another process scrape the canary. Returns the time of each scrape in nanoseconds.
fn scraped(address: SocketAddr, scrapes: usize, connections: usize) -> Result<Vec<u64>, String> {
    let program = std::env::current_exe().map_err(|error| format!("finding the cell's own program: {error}"))?;
    let child = Command::new(program)
        .args([scrape::VERB, &address.to_string(), &scrapes.to_string(), &connections.to_string()])
        .stdin(Stdio::null())
        .output();
    let child = child.map_err(|error| format!("starting the scrapes: {error}"))?;
    let said = String::from_utf8_lossy(&child.stderr).trim().to_string();
    if !child.status.success() {
        return Err(format!("the scrapes failed: {said}"));
    }
    let text = String::from_utf8_lossy(&child.stdout);
    text.lines().map(|line| line.parse().map_err(|_| format!("the scrapes said `{line}`"))).collect()
}
