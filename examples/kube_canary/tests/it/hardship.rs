//! The command under difficult conditions: stopped, without free descriptors, read slowly by many clients.

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::canary::{Canary, command, until};
use crate::support::{loopback, server};
use allocanary_testing::ports::free_port;

/// A canary of this many peers on loopback. `most_files` is the maximum of its open files; 0 leaves this process's
/// limit.
fn start(peers: u32, most_files: u64, flags: &[&str]) -> Canary {
    let file = tempfile::NamedTempFile::new().unwrap();
    let lines: String = loopback(peers).iter().map(|peer| format!("{} node\n", peer.address)).collect();
    std::fs::write(file.path(), lines).unwrap();
    let mut command = command(flags);
    command.arg(format!("--udp-port={}", free_port())).arg(format!("--peers-file={}", file.path().display()));
    command.stderr(Stdio::null());
    let limit = libc::rlimit { rlim_cur: most_files, rlim_max: most_files };
    if most_files > 0 {
        // SAFETY: between fork and exec it makes one system call, with a value that the closure owns.
        unsafe {
            command.pre_exec(move || match libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            })
        };
    }
    Canary::start(&mut command)
}

#[test]
fn a_stopped_process_has_lost_nothing_when_it_goes_on() {
    // The kernel and a server in this process answer. They are not stopped. The server takes so long that some answers
    // always arrive while the canary is stopped.
    let port = format!("--peer-port={}", server(Duration::from_millis(150)));
    let icmp = if kube_canary::prober::icmp::open(false, 1).is_ok() { "icmp," } else { "" };
    let flags = [&format!("--protocol={icmp}tcp,http"), &port, "--interval=300ms", "--timeout=2400ms"];
    let canary = start(20, 0, &flags);
    until("every peer has answered", || canary.sum("replies_total", "") > 200.0);
    let before = (canary.sum("lost_total", ""), canary.sum("replies_total", ""));
    for _ in 0..2 {
        canary.signal(libc::SIGSTOP);
        std::thread::sleep(Duration::from_secs(4));
        canary.signal(libc::SIGCONT);
        let replies = canary.sum("replies_total", "");
        until("answers go on", || canary.sum("replies_total", "") > replies + 60.0);
    }
    let page = canary.get("/metrics").expect("a page");
    assert_eq!((canary.sum("lost_total", ""), canary.sum("late_total", "")), (before.0, 0.0), "{page}");
    assert!(canary.sum("replies_total", "") > before.1);
}

#[test]
fn without_descriptors_it_serves_again_as_soon_as_it_can() {
    // The canary itself needs some twelve.
    let canary = start(2, 24, &["--protocol=udp", "--timeout=8s"]);
    let crowd: Vec<_> = (0..60).filter_map(|_| canary.connect().ok()).collect();
    assert_eq!(crowd.len(), 60, "the kernel completes connections that nobody accepts");
    // These clients ask nothing and stay connected. When another client asks, the canary closes the oldest of them to
    // serve it.
    assert!(canary.get("/healthz").is_some());
    assert!(canary.sum("http_connections_refused_total", "") > 0.0);
    assert_eq!(canary.sum("lost_total", ""), 0.0);
}

#[test]
fn where_the_descriptor_of_a_cut_connection_is_no_help_no_other_is_cut() {
    let canary = start(2, 0, &["--protocol=udp"]);
    let crowd: Vec<_> = (0..10).filter_map(|_| canary.connect().ok()).collect();
    // After this each has had its share of the time.
    std::thread::sleep(Duration::from_secs(3));
    // The limit is below the number of its open files. So it gets no descriptor, as if the whole system had none left.
    let before = canary.limit_files(3);
    let _next = canary.connect().unwrap();
    std::thread::sleep(Duration::from_secs(5));
    canary.limit_files(before);
    assert_eq!((canary.sum("http_connections_refused_total", ""), crowd.len()), (1.0, 10));
}

#[test]
fn a_probe_without_a_descriptor_is_no_loss_of_the_network() {
    let canary = start(40, 20, &["--protocol=tcp,udp", "--peer-port=9", "--interval=200ms", "--timeout=1600ms"]);
    let _crowd: Vec<_> = (0..20).filter_map(|_| canary.connect().ok()).collect();
    until("a probe could not be sent", || canary.sum("lost_total", "reason=\"send_error\"") > 0.0);
    assert_eq!(canary.sum("lost_total", "reason=\"timeout\""), 0.0);
    // The socket for UDP is open.
    until("UDP is answered", || canary.sum("replies_total", "proto=\"udp\"") > 0.0);
}

#[test]
fn a_name_that_can_never_be_resolved_is_code_2_at_once() {
    let output = Command::new(env!("CARGO_BIN_EXE_kube_canary")).args(["--peers-dns", "bad..name"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("bad..name") && text.contains("--peers-dns"), "{text}");
}

/// Another check measures whether its memory stays within the manifest's limit meanwhile.
#[test]
fn a_crowd_of_slow_readers_is_refused_in_part_and_it_serves_again() {
    // A peer has 79 lines, with 64 buckets instead of 11. That is three quarters of the 108 lines that it has with all
    // four protocols.
    let buckets: Vec<String> = (1..=64).map(|bound| format!("{}", f64::from(bound) / 1000.0)).collect();
    let buckets = format!("--buckets={}", buckets.join(","));
    for threads in [0, 16] {
        let canary =
            start(1000, 0, &["--protocol=udp", "--label-peer-ip", &buckets, &format!("--http-threads={threads}")]);
        // The sum of the counts would be wrong: some peers have answered twice before others answer once.
        let series = || canary.get("/metrics").map_or(0, |page| page.matches("rtt_seconds_count{").count());
        until("every peer has its series", || series() >= 1000);
        let page = canary.get("/metrics").unwrap().len();
        assert!(page > 6 << 20, "a page of {page} bytes: two of them must be too many");
        let (open, gzip) = ("accept: application/openmetrics-text\r\n", "accept-encoding: gzip\r\n");
        let asked =
            [("/metrics", ""), ("/metrics", open), ("/peers", ""), ("/mesh", ""), ("/metrics", gzip), ("/peers", gzip)];
        let mut crowd = Vec::new();
        for at in 0..500 {
            let Ok(mut stream) = canary.connect() else { continue };
            let (path, headers) = asked[at % asked.len()];
            // The client sends two requests, and never reads the second page.
            let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\n{headers}\r\n");
            let _ = stream.write_all(request.repeat(2).as_bytes());
            crowd.push(stream);
            if at % 10 == 9 {
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        let mut refused = 0;
        for stream in &mut crowd {
            let mut head = [0; 16];
            refused += u32::from(stream.read(&mut head).is_ok() && head.starts_with(b"HTTP/1.1 503"));
        }
        assert!(refused > 0, "nobody was refused: there was room for all");
        drop(crowd);
        until("it serves again", || canary.get("/metrics").is_some());
    }
}
