//! Finds ports for servers of tests that are free for TCP and for UDP.

use std::iter::repeat_with;
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU16, Ordering};

/// A port that no process uses now. The kernel does not choose it for a program that asks for any free port, because those begin at 32768.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    const EACH: u16 = 1000;
    let first = 10_000 + (std::process::id() % 22) as u16 * EACH;
    let is_free = |port: &u16| {
        let udp = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, *port));
        let udp = udp.or_else(|_| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, *port)));
        udp.is_ok() && TcpListener::bind((Ipv4Addr::UNSPECIFIED, *port)).is_ok()
    };
    let candidates = repeat_with(|| first + NEXT.fetch_add(1, Ordering::Relaxed) % EACH);
    candidates.take(usize::from(EACH)).find(is_free).expect("one of 1000 ports is free")
}
