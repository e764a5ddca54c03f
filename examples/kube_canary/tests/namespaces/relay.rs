//! A wire between two namespaces, made of two tap devices and a thread. The thread carries frames from one to the other
//! with the delays, copies and order that a test sets. (The kernel's netem could do this, but not every kernel has it.)

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::net::Net;

/// What happens to frames. Of the ICMP echo replies to node 0, one in N is treated; 0 means none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Treatment {
    /// The delay of every frame, in both directions.
    pub delay: Duration,
    /// One in N is carried twice.
    pub twice: u64,
    /// One in N is delayed by 600 ms.
    pub swap: u64,
    /// One in N is delayed by 4.8 s.
    pub late: u64,
    /// One in N is lost.
    pub lose: u64,
}

/// How many frames were treated, by kind.
#[derive(Clone, Copy, Debug, Default)]
pub struct Did {
    /// Echo replies to node 0.
    pub answers: u64,
    /// Carried twice.
    pub twice: u64,
    /// Delayed a little.
    pub swapped: u64,
    /// Delayed past the deadline.
    pub late: u64,
    /// Lost.
    pub lost: u64,
}

/// Both ends of the wire, and the thread that carries frames between them.
pub struct Relay {
    state: Arc<Mutex<(Treatment, Did)>>,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// A treatment that is in effect.
pub struct Run<'a>(&'a Relay);

impl Run<'_> {
    /// Ends the treatment, and returns how many frames were treated.
    pub fn stop(self) -> Did {
        let mut state = self.0.state.lock().unwrap();
        *state = (Treatment { delay: state.0.delay, ..Treatment::default() }, state.1);
        state.1
    }
}

/// A tap device in the namespace that this thread is in.
fn tap() -> File {
    let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun").unwrap();
    let mut request = [0u8; 40];
    request[..4].copy_from_slice(b"tap0");
    let flags = (libc::IFF_TAP | libc::IFF_NO_PI) as i16;
    request[16..18].copy_from_slice(&flags.to_ne_bytes());
    // SAFETY: `request` is as large as `struct ifreq`, and the kernel reads and writes no more than that.
    assert_eq!(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, request.as_mut_ptr()) }, 0);
    file
}

impl Relay {
    /// Joins nodes 0 and 1 of `net`.
    pub fn new(net: &Net) -> Relay {
        let ends: Vec<File> = (0..2)
            .map(|node| {
                let end = net.within(node, tap);
                let (name, address) = (net.name(node), net.address(node));
                let line = format!("ip -n {name} addr add {address}/24 dev tap0; ip -n {name} link set tap0 up");
                assert!(Command::new("sh").args(["-ec", &line]).status().unwrap().success());
                end
            })
            .collect();
        let (state, ended) = (Arc::new(Mutex::new(Default::default())), Arc::new(AtomicBool::new(false)));
        let carrier = (state.clone(), ended.clone());
        let thread = std::thread::spawn(move || carry(ends, &carrier.0, &carrier.1));
        Relay { state, ended, thread: Some(thread) }
    }

    /// Treats frames from now on.
    pub fn treat(&self, treatment: Treatment) -> Run<'_> {
        *self.state.lock().unwrap() = (treatment, Did::default());
        Run(self)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        let _ = self.thread.take().unwrap().join();
    }
}

/// Frames that wait: when they are due, their number in the order of arrival, and the end to which they go.
type Waiting = BinaryHeap<Reverse<(Instant, u64, usize, Vec<u8>)>>;

fn carry(mut ends: Vec<File>, state: &Mutex<(Treatment, Did)>, ended: &AtomicBool) {
    let mut waiting = Waiting::new();
    let (mut frame, mut number) = ([0u8; 2048], 0);
    while !ended.load(Ordering::Relaxed) {
        for (from, end) in ends.iter_mut().enumerate() {
            while let Ok(length) = end.read(&mut frame) {
                let frame = &frame[..length];
                let mut state = state.lock().unwrap();
                for after in when(from, frame, &mut state) {
                    number += 1;
                    waiting.push(Reverse((Instant::now() + after, number, 1 - from, frame.to_vec())));
                }
            }
        }
        while waiting.peek().is_some_and(|Reverse((due, ..))| *due <= Instant::now()) {
            let Some(Reverse((_, _, to, frame))) = waiting.pop() else { break };
            let _ = ends[to].write(&frame);
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// The delays after which copies of a frame are carried; none means that it is lost. Only echo replies to node 0 are
/// treated, each in one way only.
fn when(from: usize, frame: &[u8], (treatment, did): &mut (Treatment, Did)) -> Vec<Duration> {
    let delay = treatment.delay;
    let is_reply = frame.len() > 34 && frame[12..14] == [8, 0] && frame[23] == 1 && frame[34] == 0;
    if from != 1 || !is_reply {
        return vec![delay];
    }
    did.answers += 1;
    let is = |every: u64| every > 0 && did.answers % every == 0;
    if is(treatment.lose) {
        did.lost += 1;
        vec![]
    } else if is(treatment.late) {
        did.late += 1;
        vec![delay + Duration::from_millis(4800)]
    } else if is(treatment.swap) {
        did.swapped += 1;
        vec![delay + Duration::from_millis(600)]
    } else if is(treatment.twice) {
        did.twice += 1;
        vec![delay, delay]
    } else {
        vec![delay]
    }
}
