//! Shared by the tests: the binaries that cargo built, a clean environment for them, and golden files.

use allocanary_rows::provenance::{Build, built_from};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use allocanary_measure::rows;
use allocanary_rows::Cell;
use allocanary_rows::Moment;
use allocanary_rows::description::Description;
use allocanary_rows::job::Job;
use allocanary_rows::sample::{Measured, Sample};

use super::bounded::Bounded;

/// The cheapest cell that does something, its keys in the order in which rows have them.
pub const TINY: &str = "small:live=64,operations=1000,settle=1ms";

/// The result of a command.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ran { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
    }
}

/// The command, in a folder. Cargo's variables are removed: with them it would build cells when one is refused.
pub fn command(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_allocanary"));
    command.current_dir(folder).env_clear().stdin(Stdio::null());
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    // Tests read all tables. The output of a narrow terminal has separate tests.
    command.env("COLUMNS", "120");
    // A shell starts its background jobs with SIGINT ignored, and so would every program of these tests be.
    // SAFETY: between fork and exec it makes system calls, and allocates nothing.
    unsafe {
        command.pre_exec(|| {
            for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT] {
                libc::signal(signal, libc::SIG_DFL);
            }
            Ok(())
        });
    }
    command
}

/// Runs the command to its end.
pub fn allocanary<T: AsRef<OsStr>>(folder: &Path, arguments: impl IntoIterator<Item = T>) -> Ran {
    command(folder).args(arguments).finish().unwrap().into()
}

/// Splits a line at spaces: none of our arguments contains one.
pub fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// A study on one thread: rows in `samples.jsonl` of `out`.
pub fn study(folder: &Path, arguments: &str) -> Ran {
    allocanary(folder, words("study --threads 1 --out-dir out").into_iter().chain(words(arguments)))
}

/// All rows of a file or folder; a line that is none fails the test.
pub fn samples(path: &Path) -> Vec<Sample> {
    let mut samples = Vec::new();
    let problems = rows::read(&[path.to_path_buf()], |sample| {
        samples.push(sample);
        Ok(())
    })
    .unwrap();
    assert_eq!(problems, Vec::<String>::new());
    samples
}

/// A cell's executable.
pub fn program(allocator: &str) -> PathBuf {
    built(&format!("cell-{allocator}"))
}

/// A binary of ours: all of them are built for these tests, and are where the first one is.
pub fn built(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_BIN_EXE_cell-system")).with_file_name(name);
    assert!(path.exists(), "{}: wanted a binary of this package, found no such file: Cargo.toml", path.display());
    path
}

/// The allocators that have an `install!`, a cell and a preload.
pub fn ours() -> Vec<&'static str> {
    allocanary_facts::ours().map(|(one, _)| one.name).collect()
}

/// A cell's description of itself.
pub fn described(allocator: &str) -> Description {
    let output = Command::new(program(allocator)).arg("describe").env_clear().finish().unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A cell to run, without settings.
pub fn cell(allocator: &str, workload: &str, threads: u32) -> Cell {
    Cell::new(allocator, allocator, Job::workload(workload, threads))
}

/// A cell with settings, on one thread.
pub fn cell_with(allocator: &str, workload: &str, settings: &BTreeMap<String, String>) -> Cell {
    Cell { settings: settings.clone(), ..cell(allocator, workload, 1) }
}

/// Runs one cell directly, without the command. The error says how the cell ended.
pub fn run_cell(cell: &Cell) -> Result<Sample, String> {
    let mut environment = BTreeMap::new();
    described(&cell.allocator).environment.add_to(&mut environment, &cell.settings);
    let mut child = Command::new(program(&cell.allocator))
        .arg("run")
        .env_clear()
        .envs(environment)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // If a cell dies before it reads, its status says more than this error.
    let _ = child.stdin.take().unwrap().write_all(&serde_json::to_vec(cell).unwrap());
    let output = child.finish().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).map_err(|error| format!("{error}; {}; {complaint}", output.status))
}

/// The answer of a cell that must have one and no error.
pub fn answer(cell: &Cell) -> Measured {
    let sample = run_cell(cell).unwrap_or_else(|problem| panic!("{}: {problem}", cell.title()));
    assert_eq!(sample.error, None, "{}", cell.title());
    sample.measured.unwrap()
}

/// A reading that must be there.
pub fn reading(answer: &Measured, name: &str, moment: Moment) -> u64 {
    answer.reading(name, moment).unwrap_or_else(|| panic!("no {name} at {}", moment.name()))
}

/// Writes an executable script, in a separate process. If this process had the file open for writing, a fork by another
/// test's thread would inherit the descriptor, and starting the script would fail with "text file busy".
pub fn script(path: &Path, text: &str) {
    let write = "cat > \"$0\" && chmod 755 \"$0\"";
    let mut shell = Command::new("sh").arg("-c").arg(write).arg(path).stdin(Stdio::piped()).spawn().unwrap();
    shell.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(shell.wait().unwrap().success());
}

/// Copies a program in order to start it, in a separate process for the same reason.
pub fn copy_program(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg(from).arg(to).status().unwrap().success());
}

/// A file of `tests/golden`.
pub fn golden_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// Compares with a golden file, or writes it if UPDATE_GOLDEN=1.
pub fn assert_golden(name: &str, found: &str) {
    let path = golden_path(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some_and(|value| value == "1") {
        return fs::write(&path, found).unwrap();
    }
    let wanted = fs::read_to_string(&path).unwrap_or_default();
    let differs = wanted.lines().zip(found.lines()).position(|(wanted, found)| wanted != found);
    let line = differs.unwrap_or_else(|| wanted.lines().count().min(found.lines().count()));
    assert!(
        wanted == found,
        "differs from tests/golden/{name} at line {}:\n  wanted {:?}\n  found  {:?}\n\
         where the change is meant: UPDATE_GOLDEN=1 cargo test --release --features prometheus,leaks --test it, \
         and read the difference",
        line + 1,
        wanted.lines().nth(line),
        found.lines().nth(line),
    );
}

/// The build of this command, as its binary says it.
pub fn this_build() -> Build {
    built_from(allocanary_revision::built());
    Build::this()
}
