//! If a test's process does not end, the test fails, and the process is killed with all processes that it has started. In: a command or a
//! child. Out: its status and output.

use std::collections::BTreeSet;
use std::fs;
use std::io::Result;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Longer than any process of a test takes on a busy machine.
const MOST: Duration = Duration::from_secs(600);

/// A process that is run to its end. The test fails if this takes too long.
pub trait Bounded {
    /// Waits for its end. Returns its status and its piped output.
    fn finish(self) -> Result<Output>;
}

impl Bounded for Child {
    fn finish(self) -> Result<Output> {
        finish_within(self, MOST)
    }
}

/// Like `output`, for a command whose output is not redirected.
impl Bounded for &mut Command {
    fn finish(self) -> Result<Output> {
        self.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?.finish()
    }
}

/// The end of a child whose output the test reads itself.
pub fn end_of(child: &mut Child) -> ExitStatus {
    let pipes = pipes_of(child);
    let (end, at_end) = channel();
    let pid = child.id();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            if at_end.recv_timeout(MOST) == Err(RecvTimeoutError::Timeout) {
                // Before the kill: what was killed must find that it was too late.
                drop(at_end);
                end_all(pid, &pipes);
            }
        });
        let status = child.wait().unwrap();
        // A process that was too late has closed its end.
        assert!(end.send(()).is_ok(), "process {pid} did not end within {MOST:?}: it was killed");
        status
    })
}

fn finish_within(child: Child, most: Duration) -> Result<Output> {
    let pipes = pipes_of(&child);
    let (end, at_end) = channel();
    let pid = child.id();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            if at_end.recv_timeout(most) == Err(RecvTimeoutError::Timeout) {
                // Before the kill: what was killed must find that it was too late.
                drop(at_end);
                end_all(pid, &pipes);
            }
        });
        let output = child.wait_with_output()?;
        let text = || String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(end.send(()).is_ok(), "process {pid} did not end within {most:?}: it was killed: {}", text());
        Ok(output)
    })
}

/// The pipes that a child writes to, as `/proc/PID/fd` names them.
fn pipes_of(child: &Child) -> BTreeSet<PathBuf> {
    let files = [child.stdout.as_ref().map(AsRawFd::as_raw_fd), child.stderr.as_ref().map(AsRawFd::as_raw_fd)];
    files.into_iter().flatten().filter_map(|file| fs::read_link(format!("/proc/self/fd/{file}")).ok()).collect()
}

/// Kills a process, its descendants, and processes that have its pipes open. A process whose parent has died is no
/// longer a descendant.
fn end_all(pid: u32, pipes: &BTreeSet<PathBuf>) {
    let parent_of = |pid: u32| -> Option<u32> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse().ok()
    };
    let holds = |pid: u32| {
        let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        files.filter_map(|file| fs::read_link(file.path()).ok()).any(|file| pipes.contains(&file))
    };
    let own = std::process::id();
    let all: Vec<u32> = fs::read_dir(Path::new("/proc"))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|other| *other != own)
        .collect();
    let is_below =
        |other: u32| std::iter::successors(Some(other), |pid| parent_of(*pid)).take(64).any(|above| above == pid);
    // Chosen before any is killed, because a kill changes the parents.
    let chosen: Vec<u32> = all.into_iter().filter(|other| is_below(*other) || holds(*other)).collect();
    for pid in chosen {
        // SAFETY: sends a signal; a process that is gone is an error that changes nothing.
        unsafe { libc::kill(pid as i32, libc::SIGKILL) };
    }
}

#[test]
fn a_process_that_does_not_end_is_killed_with_what_it_has_started() {
    // The shell ends, and a process that it has started has the pipe open.
    for line in ["sleep 601 & echo $!", "sh -c 'sleep 601; true' & echo $!; wait"] {
        let mut command = Command::new("sh");
        command.args(["-c", line]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        let late = std::panic::catch_unwind(|| finish_within(child, Duration::from_millis(300)));
        let text = late.expect_err(line);
        let text = text.downcast_ref::<String>().unwrap();
        assert!(text.contains("did not end within 300ms"), "{text}");
    }
    let mut command = Command::new("echo");
    assert_eq!(command.arg("7").finish().unwrap().stdout, b"7\n");
}
