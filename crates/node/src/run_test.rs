//! The agent as it runs, on processes of a test.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::channel;

use super::*;
use crate::fake::{Fake, MIB, Reads, process, seen};

fn options() -> Options {
    Options { node: "n1".into(), every: Duration::from_millis(20), share: 0.5, kubelet: None }
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
        run_in(Fake::of(vec![process(5, 100, 40)]), options(), listener, &mut reads, |_| "page".into())
    });
    is_stuck.recv_timeout(Duration::from_secs(60)).unwrap();
    for (path, wanted) in
        [("/metrics", "allocanary_memory_bytes{"), ("/report.json", "\"node\":\"n1\""), ("/report", "page")]
    {
        let page = get(address, path);
        assert!(page.starts_with("HTTP/1.1 200") && page.contains(wanted), "{page}");
    }
    assert!(get(address, "/healthz").contains("were counted"));
}

#[test]
fn once_reads_each_heap_once_and_ends_also_where_nothing_can_be_read_and_no_kubelet_answers() {
    let world = Fake::of((1..20).map(|pid| process(pid + 100, 5, 40)).collect());
    let (tried, told) = channel();
    let look = move |pid: u32| {
        tried.send(pid).unwrap();
        if pid.is_multiple_of(2) { Err("no".to_string()) } else { Ok(seen(MIB)) }
    };
    let mut reads = Reads { look: Some(Box::new(look)), ..Reads::default() };
    let kubelet = Some(("http://127.0.0.1:1/pods".to_string(), Trust::default()));
    let report = once_in(world, &Options { kubelet, ..options() }, &mut reads).unwrap();
    drop(reads);
    let mut tried: Vec<u32> = told.iter().collect();
    tried.sort_unstable();
    assert_eq!(tried, (101..120).collect::<Vec<_>>());
    assert!(report.problems.iter().any(|one| one.contains("could not be reached")), "{:?}", report.problems);
    assert_eq!((report.own.walks, report.own.failed), (10, 9));
}
