//! The command as a process: how it starts, refuses and ends.

use std::io::Read;
use std::net::UdpSocket;
use std::process::{Output, Stdio};
use std::time::Duration;

use crate::canary::{Canary, command, ended_within, until};
use allocanary_testing::ports::free_port;

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The output of a canary that gets this signal while a client stays connected and its peers never answer. `None` if it
/// had to be killed.
fn ends_in_time(number: i32) -> Option<Output> {
    let port = format!("--udp-port={}", free_port());
    // Addresses reserved for documentation, which no host has.
    let flags = ["--peer=192.0.2.1", "--peer=192.0.2.2", "--protocol=udp,tcp,http", "--timeout=8s", &port];
    let mut canary = Canary::start(command(&flags).stdout(Stdio::piped()).stderr(Stdio::piped()));
    let _client = canary.connect().unwrap();
    until("it probes", || canary.sum("probes_sent_total", "proto=\"tcp\"") > 0.0);
    canary.signal(number);
    let status = ended_within(&mut canary.child, Duration::from_secs(2))?;
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    canary.child.stdout.take()?.read_to_end(&mut stdout).ok()?;
    canary.child.stderr.take()?.read_to_end(&mut stderr).ok()?;
    Some(Output { status, stdout, stderr })
}

#[test]
fn a_signal_ends_it_within_two_seconds_with_code_0() {
    for number in [libc::SIGTERM, libc::SIGINT] {
        // The canary must end within two seconds. If the machine stood still, another try succeeds. If the canary itself
        // waits, all three fail.
        let output = (0..3).find_map(|_| ends_in_time(number)).expect("killed after two seconds, three times");
        assert_eq!((output.status.code(), &*text(&output)), (Some(0), ""));
    }
}

#[test]
fn a_port_in_use_is_one_line_and_code_1() {
    let taken = UdpSocket::bind("[::]:0").or_else(|_| UdpSocket::bind("0.0.0.0:0")).unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let output = command(&["--protocol", "udp", "--udp-port", &port, "--listen", "127.0.0.1:0"]).output().unwrap();
    let text = text(&output);
    assert_eq!((output.status.code(), text.lines().count()), (Some(1), 1), "{text}");
    assert!(text.contains(&port) && text.contains("--udp-port"), "{text}");
}

#[test]
fn a_bad_flag_is_code_2() {
    let output = command(&["--timeout", "1h"]).output().unwrap();
    assert_eq!((output.status.code(), text(&output).lines().count()), (Some(2), 1), "{}", text(&output));
    assert_eq!(command(&["--peer", "no host"]).output().unwrap().status.code(), Some(2));
    assert_eq!(command(&["--help"]).output().unwrap().status.code(), Some(0));
}
