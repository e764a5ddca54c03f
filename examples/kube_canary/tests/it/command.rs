//! The command as a process: how it starts, refuses and ends.

use std::net::UdpSocket;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::support::free_port;

fn canary(flags: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kube_canary"));
    command.args(flags).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn signal(child: &Child, number: i32) {
    // SAFETY: a signal to a child that was not waited for yet.
    assert_eq!(unsafe { libc::kill(child.id() as i32, number) }, 0);
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_signal_ends_it_with_code_0() {
    for number in [libc::SIGTERM, libc::SIGINT] {
        let port = free_port().to_string();
        let child = canary(&["--protocol", "udp", "--udp-port", &port, "--listen", "127.0.0.1:0"]).spawn().unwrap();
        // It is up when it has its port.
        let begun = Instant::now();
        while UdpSocket::bind(format!("0.0.0.0:{port}")).is_ok() {
            assert!(begun.elapsed() < Duration::from_secs(30), "it never took its port");
            std::thread::sleep(Duration::from_millis(10));
        }
        std::thread::sleep(Duration::from_millis(200));
        signal(&child, number);
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), &*text(&output)), (Some(0), ""));
    }
}

#[test]
fn a_port_in_use_is_one_line_and_code_1() {
    let taken = UdpSocket::bind("[::]:0").or_else(|_| UdpSocket::bind("0.0.0.0:0")).unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let output = canary(&["--protocol", "udp", "--udp-port", &port, "--listen", "127.0.0.1:0"]).output().unwrap();
    let text = text(&output);
    assert_eq!((output.status.code(), text.lines().count()), (Some(1), 1), "{text}");
    assert!(text.contains(&port) && text.contains("--udp-port"), "{text}");
}

#[test]
fn a_bad_flag_is_code_2() {
    let output = canary(&["--timeout", "1h"]).output().unwrap();
    assert_eq!((output.status.code(), text(&output).lines().count()), (Some(2), 1), "{}", text(&output));
    assert_eq!(canary(&["--peer", "nobody"]).output().unwrap().status.code(), Some(2));
    assert_eq!(canary(&["--help"]).output().unwrap().status.code(), Some(0));
}
