//! Programs in C, C++ and Rust that tests compile, start and talk to by lines.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::skipped::skipped;

/// Compiles a source file into a folder. `None`, and a line, if that is not possible here.
pub fn compiled(source: &Path, folder: &Path, flags: &[&str]) -> Option<PathBuf> {
    let usual: &[&str] = if is(source, "rs") { &["--edition", "2024"] } else { &["-O1", "-pthread"] };
    compiled_to(&folder.join(source.file_stem()?), &[source], &[usual, flags].concat())
}

/// Compiles a text, which is written to a file of this name in the folder.
#[expect(clippy::disallowed_methods, reason = "a test's own folder")]
pub fn compiled_text(folder: &Path, name: &str, text: &str, flags: &[&str]) -> Option<PathBuf> {
    let source = folder.join(name);
    std::fs::write(&source, text).expect("a file in the test's folder");
    compiled_to(&source.with_extension(""), &[&source], flags)
}

/// Compiles sources to this file, in its folder: a program, or what the flags say. The first source's extension says by which compiler.
pub fn compiled_to(output: &Path, sources: &[&Path], flags: &[&str]) -> Option<PathBuf> {
    let compiler = match sources.first()? {
        source if is(source, "rs") => "rustc",
        source if is(source, "cc") || is(source, "cpp") => "c++",
        _ => "cc",
    };
    // Libraries come after what needs them.
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

    /// All that it still writes, until it ends.
    pub fn rest(&mut self) -> String {
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).expect("the program writes text");
        rest
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
