//! The command as a process with a web server. In: flags. Out: its pages, and how it ends.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use allocanary_testing::ports::free_port;
use serde_json::Value;

/// A canary that serves its pages. It is ended with its test.
pub struct Canary {
    pub child: Child,
    pub server: SocketAddr,
}

impl Drop for Canary {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Canary {
    /// Starts the command, with a separate address to listen at.
    pub fn start(command: &mut Command) -> Canary {
        let port = free_port();
        let child = command.arg(format!("--listen=127.0.0.1:{port}")).arg("--series=all").spawn().unwrap();
        Canary::serving(child, ([127, 0, 0, 1], port).into())
    }

    /// A process that will serve its pages at this address.
    pub fn serving(child: Child, server: SocketAddr) -> Canary {
        let canary = Canary { child, server };
        until("it serves its page", || canary.get("/metrics").is_some());
        canary
    }

    pub fn connect(&self) -> std::io::Result<TcpStream> {
        let stream = TcpStream::connect(self.server)?;
        // If descriptors are scarce, a client that asks has to wait for several that do not. No test measures this
        // time.
        stream.set_read_timeout(Some(Duration::from_secs(120)))?;
        Ok(stream)
    }

    /// The page, if it is answered with 200.
    pub fn get(&self, path: &str) -> Option<String> {
        let mut stream = self.connect().ok()?;
        write!(stream, "GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        answer.starts_with("HTTP/1.1 200").then_some(answer)
    }

    /// A page that must exist. On a busy machine the canary may read a request too late and close its connection. Then the
    /// page is requested again.
    fn page(&self, path: &str) -> String {
        let answer = std::cell::OnceCell::new();
        until(&format!("{path} is answered"), || self.get(path).is_some_and(|page| answer.set(page).is_ok()));
        answer.into_inner().expect("it was answered")
    }

    /// A page that is JSON.
    pub fn json(&self, path: &str) -> Value {
        let answer = self.page(path);
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
    }

    /// The addresses that get probes.
    pub fn probed(&self) -> Vec<String> {
        let page = self.json("/peers");
        let probed = page["peers"].as_array().unwrap().iter().filter(|peer| peer["probed"] == true);
        let mut probed: Vec<String> = probed.map(|peer| peer["address"].as_str().unwrap().to_string()).collect();
        probed.sort();
        probed
    }

    /// The sum of all series of a metric whose line contains `label`.
    pub fn sum(&self, metric: &str, label: &str) -> f64 {
        let page = self.page("/metrics");
        let name = |line: &&str| line.split(['{', ' ']).next() == Some(&format!("kube_canary_{metric}"));
        let lines = page.lines().filter(|line| name(line) && line.contains(label));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    /// How often the peers file could not be read.
    pub fn failures(&self) -> u64 {
        self.json("/peers")["sources"]["file"]["failed"].as_u64().unwrap()
    }

    /// Sets the maximum of its open files, and returns the limit before.
    pub fn limit_files(&self, most: u64) -> u64 {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        let id = self.child.id() as i32;
        // SAFETY: one limit is read into a value of this test.
        assert_eq!(unsafe { libc::prlimit(id, libc::RLIMIT_NOFILE, std::ptr::null(), &raw mut limit) }, 0);
        let before = std::mem::replace(&mut limit.rlim_cur, most);
        // SAFETY: the limit is set from that value.
        assert_eq!(unsafe { libc::prlimit(id, libc::RLIMIT_NOFILE, &raw const limit, std::ptr::null_mut()) }, 0);
        before
    }

    pub fn signal(&self, number: i32) {
        // SAFETY: a signal to a child that was not waited for yet.
        assert_eq!(unsafe { libc::kill(self.child.id() as i32, number) }, 0);
    }
}

/// The command with these flags.
pub fn command(flags: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kube_canary"));
    command.args(flags);
    command
}

/// How a process ended, if it ended in time.
pub fn ended_within(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let begun = Instant::now();
    loop {
        match child.try_wait().unwrap() {
            None if begun.elapsed() < limit => std::thread::sleep(Duration::from_millis(10)),
            ended => return ended,
        }
    }
}

pub fn until(what: &str, is: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < Duration::from_secs(60), "waited a minute until {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
