//! Compiles and starts programs in C, C++ and Rust for tests, and exchanges lines with them.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::skipped::skipped;

/// Compiles a source file into a folder. If this is not possible here, prints why and returns `None`.
pub fn compiled(source: &Path, folder: &Path, flags: &[&str]) -> Option<PathBuf> {
    let usual: &[&str] = if is(source, "rs") { &["--edition", "2024"] } else { &["-O1", "-pthread"] };
    compiled_to(&folder.join(source.file_stem()?), &[source], &[usual, flags].concat())
}

/// Writes source text to a file of this name in the folder, and compiles it.
#[expect(clippy::disallowed_methods, reason = "a test's own folder")]
pub fn compiled_text(folder: &Path, name: &str, text: &str, flags: &[&str]) -> Option<PathBuf> {
    let source = folder.join(name);
    std::fs::write(&source, text).expect("a file in the test's folder");
    compiled_to(&source.with_extension(""), &[&source], flags)
}

/// Compiles sources to a program, or to what `flags` ask for. The compiler runs in the folder of `output`. The first source's extension
/// chooses the compiler.
pub fn compiled_to(output: &Path, sources: &[&Path], flags: &[&str]) -> Option<PathBuf> {
    let compiler = match sources.first()? {
        source if is(source, "rs") => "rustc",
        source if is(source, "cc") || is(source, "cpp") => "c++",
        _ => "cc",
    };
    // The flags come last, because a library must follow the sources that need it.
    let mut command = Command::new(compiler);
    command.arg("-o").arg(output).args(sources).args(flags).current_dir(output.parent()?);
    match command.output() {
        Ok(ran) if ran.status.success() => return Some(output.into()),
        Ok(ran) => skipped(format_args!("{compiler} {flags:?}: {}", String::from_utf8_lossy(&ran.stderr))),
        Err(error) => skipped(format_args!("no {compiler}: {error}")),
    }
    None
}

fn is(source: &Path, extension: &str) -> bool {
    source.extension().is_some_and(|found| found == extension)
}

/// A running program that waits for its standard input and ends when that input is closed. The destructor closes it and waits for the end.
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

    /// Starts a program that waits and does nothing else. A reading of the test's own process would see what other tests allocate.
    pub fn idle() -> Running {
        let mut cat = Running::start(&mut Command::new("cat"));
        cat.go_on("started=1");
        assert_eq!(cat.counts()["started"], 1);
        cat
    }

    /// Its process ID.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Reads the next line, which contains words such as `name=number`.
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

    /// The rest of its output, until it ends.
    pub fn rest(&mut self) -> String {
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).expect("the program writes text");
        rest
    }

    /// Kills the program. A program that never reads its input must be killed, or it never ends.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.input = None;
        if std::thread::panicking() {
            // The program may be stopped by a signal, and would then never end.
            self.kill();
        }
        let _ = self.child.wait();
    }
}
