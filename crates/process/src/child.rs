//! The command's view of the child. It sends a line with a request, and waits for the line with the answer, within a time limit. Meanwhile
//! it gives the child what this asks for.

use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{self, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use crate::broker::{Broker, MOST, RequestSubject, send};
use crate::channel::WISH;
use crate::cost::Cost;
use crate::limits::{NO_MEMORY, NOT_CONFINED};
use crate::stopped::Held;

/// The argument that tells a program that it is such a child. The next argument is its memory limit in bytes.
pub const WORD: &str = "--read-processes";

/// A child that waits for a line. When this is dropped, the child is killed.
#[derive(Debug)]
pub struct HeldChild {
    child: process::Child,
    /// Its standard input: requests, and replies to what it asks for.
    input: UnixStream,
    /// What it may ask for now.
    broker: Broker,
    output: ChildStdout,
    /// The bytes that were read after the last complete line.
    read: Vec<u8>,
}

/// The time in which the child must start. The machine may be busy.
const START: Duration = Duration::from_secs(10);
/// The time in which a killed child ends, unless it waits in the kernel.
const END: Duration = Duration::from_millis(500);
/// The time in which the child must read the reply to what it has asked for.
const SEND: Duration = Duration::from_secs(5);
/// The longest answer in bytes. The answer for a process with 65,000 mappings, each with a different name, has 10 MiB.
const LONGEST: usize = 32 << 20;

impl HeldChild {
    /// Starts this program again as a child, with this memory limit.
    pub fn start(memory: u64) -> Result<HeldChild, Cost> {
        // This link leads to the file of this process even if another file has its name by now.
        let mut command = Command::new("/proc/self/exe");
        command.arg0("allocanary").args([WORD, &memory.to_string()]);
        HeldChild::of(&mut command, memory)
    }

    /// Starts a program that writes a line when it is ready.
    pub fn of(command: &mut Command, memory: u64) -> Result<HeldChild, Cost> {
        let failed = |error: io::Error| Cost::Ended(format!("could not be started: {error}"));
        let (input, theirs) = UnixStream::pair().map_err(failed)?;
        // A child that does not read must not keep the command waiting.
        input.set_write_timeout(Some(SEND)).map_err(failed)?;
        let command = command.stdin(OwnedFd::from(theirs)).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(failed)?;
        // `command` still has the child's end of the socket. This closes it here.
        command.stdin(Stdio::null());
        let output = child.stdout.take().ok_or_else(|| Cost::Ended("has no output".into()))?;
        let mut child = HeldChild { child, input, broker: Broker::default(), output, read: Vec::new() };
        child.line(Instant::now() + START, START, memory)?;
        Ok(child)
    }

    /// The process ID of the child.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the child's answer to a line. Meanwhile the child may ask for things that belong to `about`. After an error, do not call
    /// this again. `time` and `memory` are only for the error's text.
    pub fn ask(
        &mut self,
        line: &str,
        about: &RequestSubject,
        until: Instant,
        time: Duration,
        memory: u64,
    ) -> Result<String, Cost> {
        self.broker = Broker::of(about);
        // The last question may have left a shorter time.
        let _ = self.input.set_write_timeout(Some(SEND));
        match self.input.write_all(format!("{line}\n").as_bytes()) {
            Ok(()) => self.line(until, time, memory),
            Err(_) => Err(self.ended(memory)),
        }
    }

    /// The next line that is an answer. Replies to the lines before it, by which the child asks for something.
    fn line(&mut self, until: Instant, time: Duration, memory: u64) -> Result<String, Cost> {
        let mut held = Held::default();
        for number in 1.. {
            let line = self.any_line(until, time, memory, &mut held)?;
            let Some(wish) = line.strip_prefix(WISH) else { return Ok(line) };
            // A hostile process may control the child: it may ask without end, or not read the replies.
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Cost::Time(time));
            }
            if number > MOST {
                return Err(Cost::Ended(format!("asked for more than {MOST} files")));
            }
            let _ = self.input.set_write_timeout(Some(SEND.min(left)));
            let given = self.broker.give(wish, &mut held);
            if send(&self.input, given).is_err() {
                return Err(self.ended(memory));
            }
        }
        unreachable!("the numbers end after all time")
    }

    fn any_line(&mut self, until: Instant, time: Duration, memory: u64, held: &mut Held) -> Result<String, Cost> {
        let mut piece = vec![0; 1 << 16];
        let mut searched = 0;
        loop {
            if let Some(end) = self.read[searched..].iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=searched + end).collect();
                return Ok(String::from_utf8_lossy(&line[..searched + end]).into_owned());
            }
            searched = self.read.len();
            if self.read.len() > LONGEST {
                return Err(Cost::Ended(format!("answered more than {} MiB", LONGEST >> 20)));
            }
            let next = held.until().map_or(until, |held| held.min(until));
            if !self.has_written(next.saturating_duration_since(Instant::now())) {
                if next < until {
                    held.let_go_if_late();
                    continue;
                }
                return Err(Cost::Time(time));
            }
            match self.output.read(&mut piece) {
                Ok(0) => return Err(self.ended(memory)),
                Ok(count) => self.read.extend_from_slice(&piece[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Cost::Ended(format!("could not be heard: {error}"))),
            }
        }
    }

    /// Waits until the child has written something or has ended, or until the time is over. Returns false in the last
    /// case.
    fn has_written(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(Instant::now()).as_micros().div_ceil(1000);
            let mut poll = libc::pollfd { fd: self.output.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            let left = left.min(i32::MAX as u128) as i32;
            // SAFETY: the call reads and writes one structure, which lives until it returns.
            let found = unsafe { libc::poll(&mut poll, 1, left) };
            // A signal ends the call early, for example the signal for the end of another child.
            if found > 0 || found == 0 && Instant::now() >= until {
                return found > 0;
            }
        }
    }

    /// How the child ended.
    fn ended(&mut self, memory: u64) -> Cost {
        match self.status() {
            Some(status) if status.code() == Some(NO_MEMORY) => Cost::Memory(memory),
            Some(status) if status.code() == Some(NOT_CONFINED) => Cost::Rights,
            Some(status) => match (status.signal(), status.code()) {
                (Some(signal), _) => Cost::Ended(format!("was ended by signal {signal}")),
                (_, code) => Cost::Ended(format!("ended with code {}", code.unwrap_or_default())),
            },
            None => Cost::Ended("closed its output".into()),
        }
    }

    /// The exit status of the child, if it ends within a moment.
    fn status(&mut self) -> Option<process::ExitStatus> {
        let until = Instant::now() + END;
        loop {
            match self.child.try_wait() {
                Ok(None) if Instant::now() < until => std::thread::sleep(Duration::from_micros(200)),
                found => return found.ok().flatten(),
            }
        }
    }
}

impl Drop for HeldChild {
    fn drop(&mut self) {
        let _ = self.child.kill();
        // A child that waits in the kernel may never end. It is left behind: this process does not wait for it.
        let _ = self.status();
    }
}
