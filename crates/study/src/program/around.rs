//! The user's commands around a program: before, load, check, after, and the one that says that it is ready. In: a shell
//! command. Out: its output in a file, or a failure that says what it wrote last.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::pipes::Pipe;
use super::variables;
use super::watch::ProgramUse;
use allocanary_rows::sample::{Failure, FailureKind};
use allocanary_sys::sys;

/// A shell command to run.
pub struct ShellCommand<'a> {
    /// Its flag, for messages: `--load`.
    pub flag: &'a str,
    /// The command.
    pub text: &'a str,
    /// The folder in which it runs.
    pub folder: &'a Path,
    /// Its environment.
    pub environment: &'a BTreeMap<String, String>,
    /// The file that gets its output.
    pub output: PathBuf,
    /// The file that is its standard input.
    pub input: Option<&'a Path>,
}

/// How a command ended.
pub struct CommandEnd {
    /// Whether it ended with success.
    pub ok: bool,
    /// How it ended, in words, with its last lines.
    pub text: String,
    /// Its time.
    pub wall: Duration,
}

impl ShellCommand<'_> {
    /// Runs it, at most until `until`, and samples the program meanwhile. A command that does not succeed is a failure.
    pub fn run(
        &self,
        watch: Option<&mut ProgramUse>,
        until: Instant,
        stop: &AtomicBool,
    ) -> Result<CommandEnd, Failure> {
        let done = self.attempt(watch, until, stop)?;
        match done.ok {
            true => Ok(done),
            false => Err(self.failure(&done.text)),
        }
    }

    /// As [`ShellCommand::run`], but a command that does not succeed is no failure.
    pub fn attempt(
        &self,
        mut watch: Option<&mut ProgramUse>,
        until: Instant,
        stop: &AtomicBool,
    ) -> Result<CommandEnd, Failure> {
        let started = Instant::now();
        let start = || -> std::io::Result<(std::process::Child, Pipe)> {
            let (reader, writer) = std::io::pipe()?;
            let mut command = Command::new("sh");
            command.args(["-c", self.text]).current_dir(self.folder);
            command.env_clear().envs(variables::others()).envs(self.environment);
            let input = self.input.map(std::fs::File::open).transpose()?;
            command.stdin(input.map_or_else(Stdio::null, Stdio::from));
            command.stdout(writer.try_clone()?).stderr(writer);
            sys::prepare(&mut command, Vec::new(), None)?;
            // The thread for the pipe starts first. If it cannot start, no command has to be ended.
            let pipe = Pipe::read(reader, &self.output, None)?;
            Ok((command.spawn()?, pipe))
        };
        let (child, pipe) = start().map_err(|error| self.failure(&format!("could not be started: {error}")))?;
        let pid = child.id();
        if let Some(watch) = &mut watch {
            watch.others.insert(pid);
        }
        let watched = sys::Watched::of(pid);
        const MOST: Duration = Duration::from_millis(20);
        let ended = watched.wait(|| {
            let is_late = Instant::now() >= until || stop.load(Ordering::Relaxed);
            let pause = watch.as_mut().map_or(MOST, |watch| {
                watch.sample();
                watch.pause().min(MOST)
            });
            (!is_late).then_some(pause)
        });
        let ended = ended.ok().flatten().map(|(status, _)| status);
        let wall = started.elapsed();
        sys::signal(pid, true, libc::SIGKILL);
        if ended.is_none() {
            let _ = watched.wait(|| Some(MOST));
        }
        if let Some(watch) = &mut watch {
            watch.others.remove(&pid);
        }
        pipe.finish(Duration::from_secs(1));
        let last = pipe.last_lines();
        let said = if last.is_empty() { "; it wrote nothing".to_string() } else { format!(": {last}") };
        let text = match ended {
            None if stop.load(Ordering::Relaxed) => "was interrupted".to_string(),
            None => format!("did not end in time (--run-timeout){said}"),
            Some(status) => format!("{}{said}", how(status)),
        };
        Ok(CommandEnd { ok: ended == Some(0), text, wall })
    }

    fn failure(&self, text: &str) -> Failure {
        let text = format!("{} `{}` {text}", self.flag, self.text);
        Failure { kind: FailureKind::Around, text }
    }
}

/// How a process ended: `ended with exit code 3`.
pub fn how(status: i32) -> String {
    match libc::WIFSIGNALED(status) {
        true => format!("was killed by signal {}", signal_name(libc::WTERMSIG(status))),
        false => format!("ended with exit code {}", libc::WEXITSTATUS(status)),
    }
}

/// Whether a status is that of a process that was killed, or of a shell that had waited for one.
pub fn is_killed(status: i32) -> bool {
    match libc::WIFSIGNALED(status) {
        true => libc::WTERMSIG(status) == libc::SIGKILL,
        false => libc::WEXITSTATUS(status) == 128 + libc::SIGKILL,
    }
}

const SIGNALS: [(&str, i32); 15] = [
    ("SIGHUP", libc::SIGHUP),
    ("SIGINT", libc::SIGINT),
    ("SIGQUIT", libc::SIGQUIT),
    ("SIGILL", libc::SIGILL),
    ("SIGABRT", libc::SIGABRT),
    ("SIGBUS", libc::SIGBUS),
    ("SIGFPE", libc::SIGFPE),
    ("SIGKILL", libc::SIGKILL),
    ("SIGUSR1", libc::SIGUSR1),
    ("SIGSEGV", libc::SIGSEGV),
    ("SIGUSR2", libc::SIGUSR2),
    ("SIGPIPE", libc::SIGPIPE),
    ("SIGTERM", libc::SIGTERM),
    ("SIGXFSZ", libc::SIGXFSZ),
    ("SIGSYS", libc::SIGSYS),
];

/// A signal's number and name: `11 (SIGSEGV)`.
pub fn signal_name(number: i32) -> String {
    let name = SIGNALS.iter().find(|(_, known)| *known == number);
    name.map_or(number.to_string(), |(name, _)| format!("{number} ({name})"))
}

/// The number of a signal that a user names: `SIGTERM`, `TERM` or `15`.
pub fn signal_number(text: &str) -> Option<i32> {
    let upper = text.trim().to_uppercase();
    let known = SIGNALS.iter().find(|(name, _)| *name == upper || name.trim_start_matches("SIG") == upper);
    known.map(|(_, number)| *number).or_else(|| upper.parse().ok().filter(|number| (1..=64).contains(number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(text: &str, time: Duration) -> CommandEnd {
        run_until(text, time, false)
    }

    fn run_until(text: &str, time: Duration, is_interrupted: bool) -> CommandEnd {
        let folder = tempfile::tempdir().unwrap();
        let environment = BTreeMap::from([("PATH".to_string(), "/usr/bin:/bin".to_string())]);
        let output = folder.path().join("out");
        let around = ShellCommand {
            flag: "--load",
            text,
            folder: folder.path(),
            environment: &environment,
            output,
            input: None,
        };
        around.attempt(None, Instant::now() + time, &AtomicBool::new(is_interrupted)).unwrap()
    }

    #[test]
    fn a_command_says_how_it_ended_and_what_it_wrote_last() {
        let long = Duration::from_secs(60);
        assert!(run("true", long).ok);
        assert_eq!(run("echo a; echo b >&2; exit 4", long).text, "ended with exit code 4: a | b");
        assert_eq!(run("kill -SEGV $$", long).text, "was killed by signal 11 (SIGSEGV); it wrote nothing");
        assert!(run("echo on; sleep 600", Duration::from_millis(100)).text.contains("did not end in time"));
        assert_eq!(run_until("sleep 600", long, true).text, "was interrupted");
    }

    #[test]
    fn signals_are_named_in_three_ways() {
        for text in ["SIGTERM", "term", "15"] {
            assert_eq!(signal_number(text), Some(libc::SIGTERM), "{text}");
        }
        assert_eq!((signal_number("SIGNONE"), signal_number("0"), signal_number("999")), (None, None, None));
    }
}
