//! The example service, `kube_canary`, with peers on the loopback network. In: flags. Out: its pages and its memory.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::process::{Child, Stdio};
use std::time::Duration;

use allocanary_testing::ports::free_port;

use crate::place::{Place, clean};
use crate::problem::Problem;

/// A running canary. It is ended when this is dropped.
pub struct Canary {
    child: Child,
    port: u16,
}

impl Drop for Canary {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Canary {
    #[expect(clippy::disallowed_methods, reason = "a file in a folder of the check alone")]
    /// Starts it with this number of peers, and waits until it serves its page.
    pub fn start(place: &Place, peers: u32, flags: &[&str]) -> Result<Canary, Problem> {
        let (port, echo) = (free_port(), free_port());
        let file = place.folder().join("peers");
        let lines: String = (0..peers).map(|at| format!("{} node-{at}\n", Ipv4Addr::from(0x7f00_0101 + at))).collect();
        fs::write(&file, lines).map_err(failed)?;
        let mut command = clean(&[&place.binary("kube_canary")?.to_string_lossy()], place.folder());
        command.args(["--protocol=udp", "--series=all", &format!("--peers-file={}", file.display())]).args(flags);
        command.args([format!("--listen=127.0.0.1:{port}"), format!("--udp-port={echo}")]);
        // The setting of the service's image.
        command.env("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0").stderr(Stdio::null());
        let canary = Canary { child: command.spawn().map_err(failed)?, port };
        canary.until("it serves its page", || canary.page().is_ok())?;
        Ok(canary)
    }

    /// Waits until `is` returns true, at most a minute.
    pub fn until(&self, what: &str, is: impl Fn() -> bool) -> Result<(), Problem> {
        for _ in 0..600 {
            if is() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Err(failed(format!("waited a minute until {what}")))
    }

    /// A connection.
    pub fn connect(&self) -> std::io::Result<TcpStream> {
        let stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(120)))?;
        Ok(stream)
    }

    /// Its metrics, read over a new connection.
    pub fn page(&self) -> std::io::Result<String> {
        let mut stream = self.connect()?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        match answer.starts_with("HTTP/1.1 200") {
            true => Ok(answer),
            false => Err(std::io::Error::other("a scrape was not answered with 200")),
        }
    }

    /// A line of a file of its process, in KiB: `Rss:` of `smaps_rollup`, `VmHWM:` of `status`.
    pub fn kib(&self, file: &str, key: &str) -> Result<f64, Problem> {
        let text = fs::read_to_string(format!("/proc/{}/{file}", self.child.id())).map_err(failed)?;
        let line = text.lines().find_map(|line| line.strip_prefix(key));
        let found = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        found.ok_or_else(|| failed(format!("its {file} has no {key}")))
    }
}

/// A problem of the service.
pub fn failed(why: impl std::fmt::Display) -> Problem {
    Problem::Failed(format!("kube_canary: {why}"))
}
