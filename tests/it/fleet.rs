//! `allocanary node` and `fleet` as a user runs them: an agent of this machine, asked by hand and by the other verb.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use allocanary_testing::skipped::skipped;
use serde_json::Value;

use super::profile::{PRELOADS, Service, compiled, table};
use super::support::{allocanary, command, words};

/// An agent, until it is dropped.
struct Agent {
    child: Child,
    address: String,
}

impl Agent {
    /// Little is read: what counts here is that it is told.
    fn start() -> Agent {
        Agent::with("--cpu-percent 0.5")
    }

    fn with(more: &str) -> Agent {
        let mut command = command(Path::new("/"));
        let line = &format!("node --listen 127.0.0.1:0 --every 1s --name test-node {more}");
        command.args(words(line)).env("NODE_NAME", "another").stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut said = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut said).unwrap();
        let address = said.split("http://").nth(1).and_then(|rest| rest.split('/').next());
        Agent { child, address: address.unwrap_or_else(|| panic!("{said}")).to_string() }
    }

    fn get(&self, path: &str) -> String {
        let (head, body) = self.ask(path);
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        String::from_utf8(body).unwrap()
    }

    /// The head of the answer, and its body.
    fn ask(&self, path: &str) -> (String, Vec<u8>) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|end| end == b"\r\n\r\n").unwrap();
        let body = answer.split_off(end + 4);
        (String::from_utf8(answer).unwrap(), body)
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn an_agent_tells_what_is_resident_and_fleet_makes_a_table_of_it() {
    let agent = Agent::start();
    let report: Value = serde_json::from_str(&agent.get("/report.json")).unwrap();
    assert_eq!((report["schema"].as_u64(), report["node"].as_str()), (Some(1), Some("test-node")));
    let rows = report["rows"].as_array().unwrap();
    assert!(!rows.is_empty() && report["own"]["processes"].as_u64() >= Some(2), "{report}");
    let sum = |row: &Value| row["parts_bytes"].as_object().unwrap().values().filter_map(Value::as_u64).sum::<u64>();
    assert!(rows.iter().map(sum).sum::<u64>() > 1 << 20, "{report}");
    let metrics = agent.get("/metrics");
    assert!(metrics.contains("allocanary_resident_bytes{") && metrics.ends_with("# EOF\n"), "{metrics}");
    let page = agent.get("/report");
    // The style of all pages names the map; a frame is there only if a workload is.
    assert!(page.contains("<svg class=\"treemap\"") && page.contains("<rect class=\"frame\""), "{page}");
    assert!(agent.get("/healthz").starts_with("all processes were counted "));

    let told = |line: String| allocanary(Path::new("/"), words(&line));
    let table = told(format!("fleet http://{}", agent.address));
    assert_eq!(table.code, Some(0), "{table:?}");
    assert!(table.out.contains("resident") && table.out.lines().all(|line| line.chars().count() <= 120), "{table:?}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("node.json");
    std::fs::write(&file, report.to_string()).unwrap();
    // A file is a node as well, and one that does not answer is told.
    let both = told(format!("fleet {} http://127.0.0.1:1 --json", file.display()));
    let fleet: Value = serde_json::from_str(&both.out).unwrap();
    assert_eq!((both.code, fleet["nodes"].as_u64()), (Some(1), Some(1)), "{both:?}");
    assert!(both.out.contains("left out: http://127.0.0.1:1/report.json: could not be reached"), "{both:?}");
    let none = told("fleet http://127.0.0.1:1".into());
    assert_eq!((none.code, none.out.as_str()), (Some(2), ""), "{none:?}");

    // A trial reads it again and again, and keeps what it read.
    let kept = folder.path().join("kept");
    let line = format!("try deployment/web --env A=1 --for 2s --every 1s --out-dir {}", kept.display());
    let tried = told(format!("{line} http://{} http://127.0.0.1:1", agent.address));
    assert!(tried.code == Some(2) && tried.err.contains("no replica of deployment/web"), "{tried:?}");
    assert!(tried.err.contains("left out: http://127.0.0.1:1"), "{tried:?}");
    assert!(std::fs::read_dir(&kept).unwrap().count() >= 1, "{tried:?}");

    let second = told(format!("node --listen {}", agent.address));
    assert!(second.code == Some(2) && second.err.contains("choose another port"), "{second:?}");
}

/// What Go's own reader says of a profile; `None`, with a message, without Go.
fn top(profile: &[u8]) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("heap.pb.gz");
    std::fs::write(&file, profile).unwrap();
    let mut go = std::process::Command::new("go");
    go.args(words("tool pprof -top -symbolize=none -sample_index=inuse_space -unit=mb")).arg(&file);
    match go.env("PPROF_TMPDIR", folder.path()).output() {
        Ok(out) => Some(String::from_utf8_lossy(&out.stdout).into_owned()),
        Err(error) => {
            skipped(format_args!("go is not installed ({error})"));
            None
        }
    }
}

/// Asks again while the agent says that it is busy.
fn asked(agent: &Agent, path: &str) -> (String, Vec<u8>) {
    let until = Instant::now() + Duration::from_secs(120);
    loop {
        let (head, body) = agent.ask(path);
        if !head.starts_with("HTTP/1.1 503") || Instant::now() > until {
            return (head, body);
        }
    }
}

#[test]
fn a_profile_is_passed_on_and_who_has_one_is_listed() {
    let Some((_folder, program)) = compiled() else { return };
    let (preload, settings) = PRELOADS[0];
    let service = Service::start(&program, "", preload, settings);
    let agent = Agent::with("--cpu-percent 50 --profiles");
    let path = format!("/debug/pprof/heap?pid={}", service.pid());
    let (head, profile) = asked(&agent, &path);
    assert!(head.starts_with("HTTP/1.1 200"), "{head}: {}", String::from_utf8_lossy(&profile));
    assert!(profile.starts_with(&[0x1f, 0x8b]));
    if let Some(top) = top(&profile) {
        // 64 MiB each, within what samples of 512 KiB let one say.
        for site in ["keeper", "hoarder"] {
            let line = top.lines().find(|line| line.ends_with(site)).unwrap_or_else(|| panic!("{site}: {top}"));
            let mib: f64 = line.trim().split("MB").next().unwrap().parse().unwrap();
            assert!((32.0..128.0).contains(&mib), "{top}");
        }
    }
    let own = format!("/debug/pprof/heap?pid={}", std::process::id());
    let (head, why) = asked(&agent, &own);
    assert!(head.starts_with("HTTP/1.1 404"), "{head}");
    assert!(String::from_utf8(why).unwrap().contains("has no profile"));
    let (head, why) = asked(&agent, "/debug/pprof/heap?pid=4000000000");
    assert!(head.starts_with("HTTP/1.1 404"), "{head}: {why:?}");

    // It is listed when its heap was read.
    let until = Instant::now() + Duration::from_secs(120);
    while !agent.get("/debug/pprof/").contains(&format!("{path}  ")) {
        assert!(Instant::now() < until, "{}", agent.get("/debug/pprof/"));
        std::thread::sleep(Duration::from_millis(200));
    }
    let report: Value = serde_json::from_str(&agent.get("/report.json")).unwrap();
    let pid: u64 = service.pid().parse().unwrap();
    let has = |row: &&Value| row["profiled"].as_array().unwrap().iter().any(|one| one.as_u64() == Some(pid));
    let row = report["rows"].as_array().unwrap().iter().find(has).expect("its row");
    assert_eq!(row["profile"], Value::Bool(true));
    // By what the report says of it, and nothing else that runs here has a profile there but other tests.
    let (head, _) =
        asked(&agent, &format!("/debug/pprof/heap?container={}", row["container"].as_str().unwrap().replace(' ', "+")));
    assert!(head.starts_with("HTTP/1.1 200") || head.starts_with("HTTP/1.1 409"), "{head}");
}

#[test]
fn a_process_with_a_damaged_profile_is_an_error_and_the_agent_goes_on() {
    let Some((_folder, program)) = compiled() else { return };
    let (preload, settings) = PRELOADS[1];
    let service = Service::start(&program, "", preload, settings);
    let (memory, at) = table(&service.pid(), preload);
    let agent = Agent::with("--cpu-percent 50 --profiles");
    let path = format!("/debug/pprof/heap?pid={}", service.pid());
    assert!(asked(&agent, &path).0.starts_with("HTTP/1.1 200"));
    // More samples than a table has.
    memory.write_all_at(&u64::MAX.to_le_bytes(), at + 4 * 8).unwrap();
    let (head, why) = asked(&agent, &path);
    let why = String::from_utf8(why).unwrap();
    assert!(head.starts_with("HTTP/1.1 500") && why.contains("damaged"), "{head}: {why}");
    assert!(agent.get("/healthz").starts_with("all processes were counted "));
}

#[test]
fn what_cannot_be_meant_is_refused() {
    for (line, wanted) in [
        ("node", "--listen"),
        ("node --once --listen 127.0.0.1:0", "cannot be used with"),
        ("node --listen 127.0.0.1:0 --cpu-percent 0", "wanted a percentage"),
        ("node --listen 127.0.0.1:0 --every 5ms", "at least 1s"),
        ("node --listen nowhere", "ADDRESS:PORT"),
        ("node --once --profiles", "cannot be used with"),
        ("node --listen 0.0.0.0:0 --profiles", "--profiles: wanted --auth kubernetes"),
        // A test runs in no pod.
        ("node --listen 127.0.0.1:0 --auth kubernetes", "wanted a pod's token and KUBERNETES_SERVICE_HOST"),
        ("node --listen 127.0.0.1:0 --tls-key /nonexistent/key", "--tls-certificate"),
        (
            "node --listen 127.0.0.1:0 --tls-key /nonexistent/key --tls-certificate /nonexistent/certificate",
            "/nonexistent/certificate",
        ),
        ("node --once --otlp http://127.0.0.1:1", "cannot be used with"),
        ("node --listen 127.0.0.1:0 --otlp https://127.0.0.1:1", "wanted http://HOST:PORT"),
        ("fleet", "NODE"),
        ("fleet /nonexistent/node.json", "wanted a URL or a file"),
    ] {
        let ran = allocanary(Path::new("/"), words(line));
        assert!(ran.code == Some(2) && ran.err.contains(wanted), "{line}: {ran:?}");
    }
}

/// A report of a node in which replicas of `shop/deployment/web` have so many MiB: pod, workload, start in minutes, MiB, settings.
fn replicas(minute: u64, rows: &[(&str, &str, u64, u64, &str)]) -> String {
    let row = |(pod, workload, start, mib, settings): &(&str, &str, u64, u64, &str)| {
        serde_json::json!({
            "namespace": "shop", "pod": pod, "container": "web", "workload": workload, "image": "", "allocator": "glibc", "version": "",
            "settings": settings.split_whitespace().collect::<Vec<_>>(), "follows": "quota", "processes": 1, "unread": 0,
            "parts_bytes": {"live": mib << 20}, "reclaimable": [], "started_timestamp_seconds": start * 60, "cpu_seconds": minute * 30, "profiled": [],
        })
    };
    serde_json::json!({
        "schema": 1, "node": "n1", "taken_timestamp_seconds": minute * 60, "boot": "", "problems": [],
        "host": {"cores": 8, "thp": "madvise", "page_bytes": 4096, "arch": "x86_64"}, "rows": rows.iter().map(row).collect::<Vec<_>>(),
        "own": {"cpu_seconds": 0.0, "cpu_counts_seconds": 0.0, "cpu_walks_seconds": 0.0, "up_seconds": 0.0, "resident_bytes": 0, "processes": 0, "denied": 0, "walks": 0,
                "failed": 0, "names_timestamp_seconds": null, "nameless": 0},
    })
    .to_string()
}

#[test]
fn a_trial_prints_its_steps_and_then_its_verdict() {
    let folder = tempfile::tempdir().unwrap();
    let readings = folder.path().join("readings");
    std::fs::create_dir(&readings).unwrap();
    let (web, canary) = ("deployment/web", "deployment/web-allocanary");
    let write = |minute: u64, rows: &[(&str, &str, u64, u64, &str)]| {
        std::fs::write(readings.join(format!("{minute}.json")), replicas(minute, rows)).unwrap();
    };
    for minute in 100..110 {
        write(minute, &[("web-a", web, 1, 100, ""), ("web-b", web, 1, 101, ""), ("web-c", web, 1, 99, "")]);
    }
    let told = |line: &str| allocanary(folder.path(), words(line));
    let line = "try shop/deploy/web --env MALLOC_ARENA_MAX=1 readings";
    let steps = told(line);
    assert_eq!(steps.code, Some(0), "{steps:?}");
    assert!(steps.out.contains("kubectl -n shop get deployment web -o json |"), "{steps:?}");
    assert!(!steps.out.contains("delete pod"), "no other replica is restarted: {steps:?}");
    let judge = "allocanary try shop/deploy/web --env MALLOC_ARENA_MAX=1 --for 1h --out-dir readings http://NODE:9912 readings\n";
    assert!(steps.out.contains(judge), "{steps:?}");
    let json: Value = serde_json::from_str(&told(&format!("{line} --json")).out).unwrap();
    assert_eq!(json["steps"].as_array().map(Vec::len), Some(4), "{json}");
    let folder_of_a_shell = told("try deploy/web/main --env A=1 --out-dir a;b");
    assert!(folder_of_a_shell.out.contains(" --out-dir 'a;b' "), "{folder_of_a_shell:?}");
    let unseen = told("try shop/deploy/web --env PYTHONMALLOC=malloc readings");
    assert!(unseen.code == Some(0) && unseen.err.contains("name it by --changed POD"), "{unseen:?}");
    for minute in 200..260 {
        let on = "MALLOC_ARENA_MAX=1";
        write(
            minute,
            &[("web-d", web, 200, 100, ""), ("web-e", web, 200, 102, ""), ("web-allocanary-x", canary, 200, 60, on)],
        );
    }
    let verdict = told(line);
    assert_eq!(verdict.code, Some(0), "{verdict:?}");
    assert!(verdict.out.starts_with("shop/deploy/web with MALLOC_ARENA_MAX=1: better\n"), "{verdict:?}");
    let json: Value = serde_json::from_str(&told(&format!("{line} --json")).out).unwrap();
    assert_eq!((json["word"].as_str(), json["effect"]["freedom"].as_u64()), (Some("better"), Some(3)), "{json}");
    // Before there was time.
    (203..260).for_each(|minute| std::fs::remove_file(readings.join(format!("{minute}.json"))).unwrap());
    let early = told(line);
    assert!(early.code == Some(1) && early.out.contains("read on"), "{early:?}");
    for (line, wanted) in [
        ("try web --env A=1", "wanted [NAMESPACE/]KIND/NAME"),
        ("try deploy/web --env A", "wanted NAME=VALUE"),
        ("try deploy/web --env A=1", "wanted its container"),
        ("try deploy/web --env A=1 --for 1h readings", "wanted agents"),
        ("try deploy/web --env A=1 --changed web-z readings", "no report has it"),
        ("try deploy/api --env A=1 readings", "no replica of deployment/api"),
        ("try deploy/web --env A=1 --tolerance 0 readings", "above 0"),
    ] {
        let ran = told(line);
        assert!(ran.code == Some(2) && ran.err.contains(wanted), "{line}: {ran:?}");
    }
}
