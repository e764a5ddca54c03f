//! Runs the command under a small program that sees how it ended and how much memory it took. In: words. Out: both, and what it printed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use allocanary_testing::programs::compiled;
use tempfile::{TempDir, tempdir};

use super::bounded::Bounded;
use super::support::words;

/// The program, in a folder of its own.
pub struct Watcher {
    folder: TempDir,
    program: PathBuf,
}

/// How a command ended. It was killed after one minute.
pub struct Watched {
    /// What it printed. Its status is that of the watching program.
    pub output: Output,
    /// As `waitpid` says it.
    pub status: i32,
    /// The most memory in KiB that the command or one of its children had.
    pub memory: u64,
}

impl Watcher {
    /// `None`, and a line, if it cannot be compiled here.
    pub fn new() -> Option<Watcher> {
        let folder = tempdir().unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/strangers_c/watched.c");
        let program = compiled(&source, folder.path(), &[])?;
        Some(Watcher { folder, program })
    }

    /// Runs the command with these words, in a folder.
    pub fn run(&self, folder: &Path, line: &str) -> Watched {
        let usage = self.folder.path().join("usage");
        let mut command = Command::new(&self.program);
        command.arg(&usage).arg(env!("CARGO_BIN_EXE_allocanary")).args(words(line)).current_dir(folder);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).stdin(Stdio::null());
        let output = command.finish().unwrap();
        let usage = fs::read_to_string(usage).unwrap();
        let (status, memory) = usage.split_once(' ').unwrap();
        Watched { output, status: status.parse().unwrap(), memory: memory.parse().unwrap() }
    }
}
