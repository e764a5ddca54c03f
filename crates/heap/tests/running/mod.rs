//! Programs in C that tests compile, start and talk to by lines.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use allocanary_testing::skipped::skipped;

/// Compiles `programs/NAME.c`. `None`, and a line, if that is not possible here.
pub fn compiled(folder: &Path, name: &str, flags: &[&str]) -> Option<PathBuf> {
    let source = format!("{}/tests/programs/{name}.c", env!("CARGO_MANIFEST_DIR"));
    let program = folder.join(name);
    let output = Command::new("cc").args(["-O1", "-pthread", "-o"]).arg(&program).arg(source).args(flags).output();
    match output {
        Ok(output) if output.status.success() => Some(program),
        Ok(output) => {
            skipped(format_args!("cc {flags:?}: {}", String::from_utf8_lossy(&output.stderr)));
            None
        }
        Err(error) => {
            skipped(format_args!("no C compiler: {error}"));
            None
        }
    }
}

/// A program that waits. It ends with its standard input.
pub struct Running {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Running {
    /// Starts it with an argument, and with settings of glibc. It has no other environment: a static program's C library allocates what
    /// `LD_LIBRARY_PATH` says, and then the heap would depend on who runs the tests.
    pub fn start(program: &Path, case: &str, tunables: &str) -> Running {
        let mut command = Command::new(program);
        command.env_clear().env("GLIBC_TUNABLES", tunables).arg(case).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
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
        self.output.read_line(&mut line).unwrap();
        let pairs = line.split_whitespace().filter_map(|pair| pair.split_once('='));
        pairs.map(|(name, count)| (name.to_string(), count.parse().unwrap())).collect()
    }

    /// Writes a line to it.
    pub fn go_on(&mut self, line: &str) {
        writeln!(self.input.as_mut().expect("it was not closed"), "{line}").unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.child.wait();
    }
}
