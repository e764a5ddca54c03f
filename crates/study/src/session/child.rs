//! One child process with a deadline. In: a program and a message for its standard input. Out: its output and status.

use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use allocanary_sys::sys;

/// A program to start, and how long to wait for it.
pub struct ChildCommand<'a> {
    /// The program.
    pub program: &'a Path,
    /// Its only argument.
    pub verb: &'a str,
    /// Its standard input.
    pub input: &'a [u8],
    /// Its complete environment. Nothing is inherited from ours: an unknown variable must not configure a candidate,
    /// and even the environment's length moves the stack.
    pub environment: &'a [(String, String)],
    /// The time after which it is killed.
    pub deadline: Duration,
}

/// How a child ended.
#[derive(Debug)]
pub struct ChildEnd {
    /// Its standard output, at most `MOST_OUTPUT` bytes.
    pub output: Vec<u8>,
    /// The end of its standard error.
    pub complaint: String,
    /// Its exit status; `None` if it was killed at its deadline or by the user's interrupt.
    pub status: Option<ExitStatus>,
    /// Time from its start to its end.
    pub wall: Duration,
}

/// Maximum output, more than any sample needs. Output beyond it is dropped.
const MOST_OUTPUT: u64 = 4 << 20;
const MOST_COMPLAINT: u64 = 64 << 10;

/// Starts the child, writes its input, reads its pipes and waits, at most until its deadline or until `interrupted`. A
/// child that still runs then is killed with all processes that it has started.
pub fn run_child(child: &ChildCommand, interrupted: &AtomicBool) -> std::io::Result<ChildEnd> {
    let started = Instant::now();
    let mut process = Command::new(child.program)
        .arg(child.verb)
        .env_clear()
        .envs(child.environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A separate process group: Ctrl-C at the terminal reaches only us, and a kill reaches the child's children
        // too.
        .process_group(0)
        .spawn()?;
    let (output, complaint) = match drain_both(&mut process) {
        Ok(pipes) => pipes,
        Err(error) => {
            sys::kill_group(process.id());
            process.wait()?;
            return Err(error);
        }
    };
    if let Some(mut input) = process.stdin.take() {
        // If the child does not read its cell, its exit status says more than EPIPE does.
        let _ = input.write_all(child.input);
    }
    let watched = sys::Watched::of(process.id());
    let waiting = || started.elapsed() < child.deadline && !interrupted.load(Ordering::Relaxed);
    let ended = watched.wait(|| waiting().then_some(Duration::from_millis(20)))?;
    let wall = started.elapsed();
    if ended.is_none() {
        sys::kill_group(process.id());
        watched.wait(|| Some(Duration::from_millis(20)))?;
    }
    let status = ended.map(|(status, _)| ExitStatus::from_raw(status));
    // The output is complete now, unless another process holds the pipe open. On a busy machine its reader may be late.
    let left = status.map_or(Duration::ZERO, |_| child.deadline.saturating_sub(wall)).max(Duration::from_secs(1));
    let output = output.recv_timeout(left).unwrap_or_default();
    let complaint = complaint.recv_timeout(Duration::from_secs(1)).unwrap_or_default();
    Ok(ChildEnd { output, complaint: last_lines(&complaint), status, wall })
}

/// Receives the content of a pipe when its other end is closed.
type Drained = Receiver<Vec<u8>>;

/// Reads a child's standard output and standard error.
fn drain_both(process: &mut std::process::Child) -> std::io::Result<(Drained, Drained)> {
    Ok((drain(process.stdout.take(), MOST_OUTPUT)?, drain(process.stderr.take(), MOST_COMPLAINT)?))
}

/// Reads a pipe on a separate thread, so that a child never waits for us.
fn drain(pipe: Option<impl Read + Send + 'static>, most: u64) -> std::io::Result<Receiver<Vec<u8>>> {
    let (send, receive) = channel();
    thread::Builder::new().spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.by_ref().take(most).read_to_end(&mut bytes);
            // Output beyond the limit is read and dropped, because a full pipe would stop the child.
            let _ = std::io::copy(&mut pipe, &mut std::io::sink());
        }
        send.send(bytes)
    })?;
    Ok(receive)
}

/// The last three lines, which contain the reason. They are joined, because an error is one line.
fn last_lines(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    // Rust's advice about backtraces does not help for a child that we start.
    let lines: Vec<&str> = lines.into_iter().filter(|line| !line.starts_with("note: run with")).collect();
    let kept = lines[lines.len().saturating_sub(3)..].join(" | ");
    kept.chars().take(400).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, deadline: Duration) -> ChildEnd {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("child");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&program, mode).unwrap();
        let environment = [("PATH".to_string(), "/usr/bin:/bin".to_string())];
        let child =
            ChildCommand { program: &program, verb: "run", input: b"cell\n", environment: &environment, deadline };
        // Another test's fork may have our new script open for writing for a moment (ETXTBSY).
        loop {
            match run_child(&child, &AtomicBool::new(false)) {
                Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => thread::yield_now(),
                ended => return ended.unwrap(),
            }
        }
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn what_the_child_says_arrives() {
        let ended = shell("read line; echo \"$1 $line\"; echo why >&2; exit 3", LONG);
        assert_eq!(ended.output, b"run cell\n");
        assert_eq!(ended.complaint, "why");
        assert_eq!(ended.status.unwrap().code(), Some(3));
    }

    #[test]
    fn a_late_child_is_killed_with_its_children() {
        let before = Instant::now();
        let ended = shell("echo begun; sleep 600 & wait", Duration::from_secs(5));
        assert!(ended.status.is_none());
        assert_eq!(ended.output, b"begun\n");
        assert!(before.elapsed() < Duration::from_secs(60), "the grandchild kept the pipe open");
    }

    #[test]
    fn a_child_that_closes_its_output_and_stays_is_late_too() {
        let ended = shell("exec >&- 2>&-; sleep 600", Duration::from_millis(200));
        assert!(ended.status.is_none());
    }

    #[test]
    fn more_than_any_sample_is_cut_and_does_not_block() {
        let ended = shell("head -c 9000000 /dev/zero", LONG);
        assert_eq!(ended.output.len() as u64, MOST_OUTPUT);
        assert!(ended.status.unwrap().success());
    }
}
