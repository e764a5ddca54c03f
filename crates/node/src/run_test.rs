//! The agent as it runs, on processes of a test.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::channel;

use super::*;
use crate::fake::{FakeWorld, MIB, Reads, process, seen};

fn options() -> AgentOptions {
    AgentOptions {
        node: "n1".into(),
        every: Duration::from_millis(20),
        share: 0.5,
        profiles: false,
        otlp: None,
        kubelet: None,
        certificate: None,
        asks: None,
    }
}

fn get(address: std::net::SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_process_that_keeps_the_agent_waiting_does_not_keep_a_page() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (stuck, is_stuck) = channel();
    thread::spawn(move || {
        let mut counts = 0;
        let before = move || {
            counts += 1;
            if counts == 2 {
                stuck.send(()).unwrap();
                loop {
                    thread::park();
                }
            }
        };
        // A heap is read in between, so that there are counters to read.
        let mut reads = Reads { before: Some(Box::new(before)), ..Reads::default() };
        run_in(FakeWorld::of(vec![process(5, 100, 40)]), options(), listener, &mut reads, |_| "page".into())
    });
    is_stuck.recv_timeout(Duration::from_secs(60)).unwrap();
    for (path, wanted) in
        [("/metrics", "allocanary_resident_bytes{"), ("/report.json", "\"node\":\"n1\""), ("/report", "page")]
    {
        let page = get(address, path);
        assert!(page.starts_with("HTTP/1.1 200") && page.contains(wanted), "{page}");
    }
    assert!(get(address, "/healthz").contains("were counted"));
}

#[test]
fn once_reads_each_heap_once_and_ends_also_where_nothing_can_be_read_and_no_kubelet_answers() {
    let world = FakeWorld::of((1..20).map(|pid| process(pid + 100, 5, 40)).collect());
    let (tried, told) = channel();
    let look = move |pid: u32| {
        tried.send(pid).unwrap();
        if pid.is_multiple_of(2) { Err("no".to_string()) } else { Ok(seen(MIB)) }
    };
    let mut reads = Reads { look: Some(Box::new(look)), ..Reads::default() };
    let kubelet = Some(("http://127.0.0.1:1/pods".to_string(), Trust::default()));
    let report = once_in(world, &AgentOptions { kubelet, ..options() }, &mut reads).unwrap();
    drop(reads);
    let mut tried: Vec<u32> = told.iter().collect();
    tried.sort_unstable();
    assert_eq!(tried, (101..120).collect::<Vec<_>>());
    assert!(report.problems.iter().any(|one| one.contains("could not be reached")), "{:?}", report.problems);
    assert_eq!((report.own.walks, report.own.failed), (10, 9));
}

/// An agent that passes profiles on, as this function reads them.
fn passing(profiles: bool, read: impl FnMut(u32) -> Vec<u8> + Send + 'static) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let mut reads = Reads { profile: Some(Box::new(read)), ..Reads::default() };
        let options = AgentOptions { profiles, ..options() };
        run_in(FakeWorld::of(vec![process(5, 100, 40)]), options, listener, &mut reads, |_| "page".into())
    });
    address
}

#[test]
fn a_profile_is_read_by_the_child_for_whoever_asks_and_for_one_at_a_time() {
    let (reading, is_reading) = channel();
    let (go_on, may_go_on) = channel::<()>();
    let address = passing(true, move |pid| {
        reading.send(pid).unwrap();
        may_go_on.recv().unwrap();
        format!("profile of {pid}").into_bytes()
    });
    let first = thread::spawn(move || get(address, "/debug/pprof/heap?pid=5"));
    assert_eq!(is_reading.recv_timeout(Duration::from_secs(60)), Ok(5));
    let second = get(address, "/debug/pprof/heap?pid=6");
    assert!(second.starts_with("HTTP/1.1 503") && second.ends_with("is being read: ask again\n"), "{second}");
    assert!(get(address, "/metrics").starts_with("HTTP/1.1 200"), "pages are those of the last count meanwhile");
    go_on.send(()).unwrap();
    let first = first.join().unwrap();
    assert!(first.starts_with("HTTP/1.1 200") && first.ends_with("\r\n\r\nprofile of 5"), "{first}");
    assert!(first.contains("application/octet-stream"), "{first}");
    assert!(get(address, "/debug/pprof/heap?pod=x").starts_with("HTTP/1.1 404"));
    assert!(get(address, "/debug/pprof/").contains("Processes that have a profile"));
}

#[test]
fn profiles_are_for_nobody_if_the_operator_has_not_said_so() {
    let address = passing(false, |_| panic!("nobody may ask"));
    for path in ["/debug/pprof/", "/debug/pprof/heap?pid=5"] {
        let answer = get(address, path);
        assert!(answer.starts_with("HTTP/1.1 404") && answer.contains("wanted one of: /metrics"), "{answer}");
        assert!(!answer.contains("pprof\n"), "{answer}");
    }
}

#[test]
fn a_process_without_a_profile_is_told_by_a_line() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let options = AgentOptions { profiles: true, ..options() };
        run_in(FakeWorld::of(vec![process(5, 100, 40)]), options, listener, &mut Reads::default(), |_| "page".into())
    });
    let answer = get(address, "/debug/pprof/heap?pid=5");
    assert!(answer.starts_with("HTTP/1.1 404") && answer.ends_with("\r\n\r\nprocess 5 has no profile\n"), "{answer}");
}

/// A receiver that takes a connection and says nothing keeps neither counts nor pages.
#[cfg(feature = "otlp")]
#[test]
fn a_receiver_of_otlp_that_is_slow_keeps_nobody_waiting() {
    let receiver = TcpListener::bind("127.0.0.1:0").unwrap();
    let otlp = Some(format!("http://{}", receiver.local_addr().unwrap()));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (counted, counts) = channel();
    thread::spawn(move || {
        let mut reads = Reads { before: Some(Box::new(move || counted.send(()).unwrap())), ..Reads::default() };
        let options = AgentOptions { otlp, ..options() };
        run_in(FakeWorld::of(vec![process(5, 100, 40)]), options, listener, &mut reads, |_| "page".into())
    });
    let (mut waiting, _) = receiver.accept().unwrap();
    let mut begin = [0; 21];
    waiting.read_exact(&mut begin).unwrap();
    assert_eq!(&begin, b"POST /v1/metrics HTTP");
    // From now on the sender waits for an answer.
    counts.try_iter().for_each(drop);
    for _ in 0..3 {
        counts.recv_timeout(Duration::from_secs(60)).unwrap();
    }
    let page = get(address, "/metrics");
    assert!(page.contains("allocanary_node_sent_points_total{result=\"failed\"} 0.0"), "{page}");
}
