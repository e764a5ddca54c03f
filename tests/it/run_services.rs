//! Services: ready, loaded, idle, stopped; in the foreground and as daemons.

use std::fs;
use std::path::Path;
use std::process::Command;

use allocanary_rows::Moment;
use allocanary_rows::sample::Sample;
use allocanary_testing::skipped::skipped;
use tempfile::tempdir;

use super::bounded::Bounded;
use super::run::run;
use super::support::{Ran, allocanary, samples};

fn line<'a>(flags: &[&'a str], program: &[&'a str]) -> Vec<&'a str> {
    ["run", "--out-dir", "out", "--repeats", "1", "--settle", "200ms"]
        .into_iter()
        .chain(flags.iter().copied())
        .chain(["--"])
        .chain(program.iter().copied())
        .collect()
}

fn service(folder: &Path, flags: &[&str], program: &[&str]) -> (Ran, Vec<Sample>) {
    let ran = allocanary(folder, line(flags, program));
    let rows = if ran.code == Some(2) { Vec::new() } else { samples(&folder.join("out")) };
    (ran, rows)
}

#[test]
fn a_service_is_read_when_it_is_ready_loaded_and_idle() {
    let folder = tempdir().unwrap();
    let text = "trap 'echo stopped; kill $!; exit 0' TERM; echo begun; sleep 600 & echo ready now; wait";
    let load = "sleep 0.2; echo '1,250.5 requests per second'; echo 'p99=1.5 ms'";
    let flags = [
        "--candidates",
        "own",
        "jemalloc",
        "--ready",
        "line:ready now",
        "--load",
        load,
        "--metric",
        "throughput=([0-9.,]+) requests",
        "--metric",
        "p99=p99=([0-9.]+) (ms)",
    ];
    let (ran, rows) = service(folder.path(), &flags, &["sh", "-c", text]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(rows.len(), 2);
    for row in &rows {
        assert_eq!(row.error, None);
        let answer = row.measured.as_ref().unwrap();
        assert_eq!(answer.moments, [Moment::Start, Moment::Ready, Moment::Peak, Moment::Idle]);
        for moment in [Moment::Ready, Moment::Peak, Moment::Idle] {
            let rss = answer.reading("resident_bytes", moment).unwrap();
            assert!(rss > 100 << 10 && rss <= answer.reading("peak_resident_bytes", moment).unwrap(), "{answer:?}");
        }
        assert!(answer.reading("pss_bytes", Moment::Idle).is_some());
        assert_eq!((answer.figures["throughput"].value, answer.figures["p99"].value), (1250.5, 1.5e6));
        assert!(answer.active_ns >= 200_000_000 && answer.notes.is_empty(), "{answer:?}");
    }
    for cell in fs::read_dir(folder.path().join("out/cells")).unwrap().flatten() {
        assert!(fs::read_to_string(cell.path().join("stdout")).unwrap().ends_with("stopped\n"));
    }
    assert!(ran.out.contains("throughput") && ran.out.contains("1.25 k/s"), "{}", ran.out);
}

#[test]
fn a_service_that_ignores_its_signal_is_killed_and_counts() {
    let folder = tempdir().unwrap();
    let text = "trap '' TERM; echo up; while :; do sleep 0.05; done";
    let (ran, rows) = service(folder.path(), &["--candidates", "own", "--ready", "line:up"], &["sh", "-c", text]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(rows[0].measured.as_ref().unwrap().notes.get("killed_after_stop"), Some(&1));
    let (ran, _) = service(
        tempdir().unwrap().path(),
        &["--candidates", "own", "--ready", "line:up", "--stop", "SIGKILL"],
        &["sh", "-c", text],
    );
    assert_eq!(ran.code, Some(0), "{ran:?}");
}

#[test]
fn a_daemon_is_followed_and_ended() {
    let folder = tempdir().unwrap();
    let text = "setsid sh -c 'echo up; exec sleep 651' & exit 0";
    let (ran, rows) = service(folder.path(), &["--candidates", "own", "--ready", "line:up"], &["sh", "-c", text]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let answer = rows[0].measured.as_ref().unwrap();
    assert!(answer.reading("resident_bytes", Moment::Idle).unwrap() > 0, "{answer:?}");
}

#[test]
fn two_programs_on_one_port_and_a_service_that_dies_are_named() {
    let folder = tempdir().unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let ready = format!("--candidates own --ready tcp:{}", listener.local_addr().unwrap().port());
    let ran = run(folder.path(), &ready, &["sleep", "652"]);
    assert!(ran.code == Some(2) && ran.err.contains("another program has that port; use {port}"), "{ran:?}");
    // It dies when its load has begun, and its load ends when it is dead: gone, or waited for by nobody yet.
    let text = "echo $$ > $0/pid; echo up; until [ -e $0/go ]; do sleep 0.01; done; echo out of luck >&2; exit 7";
    let load = "touch {dir}/go; while grep -qs 'State:.[RSD]' /proc/$(cat {dir}/pid)/status; do sleep 0.01; done";
    let (ran, _) = service(
        folder.path(),
        &["--candidates", "own", "--ready", "line:up", "--load", load],
        &["sh", "-c", text, "{dir}"],
    );
    assert!(ran.code == Some(2) && ran.err.contains("exit code 7 under its load: out of luck"), "{ran:?}");
}

#[test]
fn a_web_server_answers_on_a_port_of_its_own() {
    let folder = tempdir().unwrap();
    let python = "/usr/bin/python3";
    if !Path::new(python).exists() {
        return skipped("no /usr/bin/python3");
    }
    let load = "python3 -c \"import urllib.request; urllib.request.urlopen('http://127.0.0.1:{port}/').read()\"";
    let flags = ["--candidates", "own", "system", "--ready", "http://127.0.0.1:{port}/", "--load", load];
    let program = [python, "-m", "http.server", "--bind", "127.0.0.1", "--directory", "{dir}", "{port}"];
    let (ran, rows) = service(folder.path(), &flags, &program);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(rows.len() == 2 && rows.iter().all(|row| row.error.is_none()));
}

#[test]
fn redis_is_loaded_and_its_own_jemalloc_is_recognised() {
    let installed = |name: &str| Command::new(name).arg("--version").finish().is_ok();
    if !installed("redis-server") || !installed("redis-benchmark") {
        return skipped("no redis-server and redis-benchmark (Debian: redis-server, redis-tools)");
    }
    let folder = tempdir().unwrap();
    let flags = [
        "--candidates",
        "own",
        "own:narenas=1",
        "system",
        "jemalloc:narenas=1",
        "--ready",
        "tcp:{port}",
        "--load",
        "redis-benchmark -p {port} -t set -n 5000 -r 5000 -d 100 --csv",
        "--metric",
        "throughput=\"SET\",\"([0-9.]+)\"",
        "--metric",
        "p99:ms=\"SET\",(?:\"[0-9.]+\",){5}\"([0-9.]+)\"",
    ];
    let program = ["redis-server", "--port", "{port}", "--dir", "{dir}", "--save", ""];
    let (ran, rows) = service(folder.path(), &flags, &program);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(rows.len(), 4);
    for row in &rows {
        let answer = row.measured.as_ref().unwrap();
        assert!(answer.reading("resident_bytes", Moment::Idle).unwrap() > 1 << 20, "{}", row.cell.title());
        assert!(answer.figures["throughput"].value > 0.0 && answer.figures["p99"].value > 0.0);
    }
    let own = rows.iter().find(|row| row.cell.candidate == "own:narenas=1".into()).unwrap().measured.as_ref().unwrap();
    if own.version == "jemalloc" {
        assert_eq!(own.environment.get("MALLOC_CONF").map(String::as_str), Some("narenas:1"));
    }
}
