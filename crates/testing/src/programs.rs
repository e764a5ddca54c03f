//! Programs in C, C++ and Rust that tests compile, start and talk to by lines.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::skipped::skipped;

/// Compiles a source file into a folder. `None`, and a line, if that is not possible here.
pub fn compiled(source: &Path, folder: &Path, flags: &[&str]) -> Option<PathBuf> {
    let program = folder.join(source.file_stem()?);
    let (compiler, first): (_, &[&str]) = match source.extension().is_some_and(|extension| extension == "rs") {
        true => ("rustc", &["--edition", "2024", "-o"]),
        false => ("cc", &["-O1", "-pthread", "-o"]),
    };
    let output = Command::new(compiler).args(first).arg(&program).arg(source).args(flags).output();
    match output {
        Ok(output) if output.status.success() => Some(program),
        Ok(output) => {
            skipped(format_args!("{compiler} {flags:?}: {}", String::from_utf8_lossy(&output.stderr)));
            None
        }
        Err(error) => {
            skipped(format_args!("no {compiler}: {error}"));
            None
        }
    }
}

/// A program that waits. It ends with its standard input.
#[derive(Debug)]
pub struct Running {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Running {
    /// Starts a command with pipes for its input and output.
    pub fn start(command: &mut Command) -> Running {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the program starts");
        let output = BufReader::new(child.stdout.take().expect("it was piped"));
        Running { input: child.stdin.take(), output, child }
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next line: `name=number`, several of them.
    pub fn counts(&mut self) -> BTreeMap<String, u64> {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("the program writes a line");
        let pairs = line.split_whitespace().filter_map(|pair| pair.split_once('='));
        pairs.map(|(name, count)| (name.to_string(), count.parse().expect("a number"))).collect()
    }

    /// Writes a line to it.
    pub fn go_on(&mut self, line: &str) {
        writeln!(self.input.as_mut().expect("it was not closed"), "{line}").expect("the program reads");
    }

    /// Kills it. A program that never reads its input ends in no other way.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.input = None;
        if std::thread::panicking() {
            // It may be stopped, and would never end.
            self.kill();
        }
        let _ = self.child.wait();
    }
}
