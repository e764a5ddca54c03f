//! Too much of something: a plan, a file of rows, open files, processes, time. Each ends soon, and says what the limit is.

use std::fs::{self, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::tempdir;

use super::bounded::Bounded;
use super::fake;
use super::support::{Ran, TINY, allocanary, command, copy_program, golden_path, program, samples, script, words};
use allocanary_testing::skipped::skipped;

fn refused(ran: &Ran, said: &[&str]) {
    assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{ran:?}");
    for said in said {
        assert!(ran.err.contains(said), "wanted `{said}` in {}", ran.err);
    }
    assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
}

/// The command under limits that a shell sets.
pub fn limited(folder: &Path, limits: &str, arguments: &str) -> Ran {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{limits}; exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_allocanary")]);
    shell.args(words(arguments)).current_dir(folder).env_clear().stdin(Stdio::null());
    shell.env("PATH", std::env::var_os("PATH").unwrap_or_default()).finish().unwrap().into()
}

/// Enough for the command itself, but not for the data that it must load.
const MEMORY: &str = "ulimit -v 2000000";

#[test]
fn a_file_that_is_none_of_rows_ends_with_one_line() {
    let folder = tempdir().unwrap();
    refused(
        &limited(folder.path(), MEMORY, "report /dev/zero"),
        &["/dev/zero: not a file of rows: line 1 is longer than 4194304 bytes"],
    );
    refused(
        &limited(folder.path(), MEMORY, "study /dev/zero"),
        &["reading the study: wanted at most 100 MiB, found more"],
    );
    fs::write(folder.path().join("bad.jsonl"), "what\n".repeat(200_000)).unwrap();
    refused(
        &limited(folder.path(), MEMORY, "report bad.jsonl"),
        &["bad.jsonl: not a file of rows: 1000 of 1000 lines are none: bad.jsonl:1: not a row: "],
    );
    // A file of rows with some bad lines is reported, and the lines are counted.
    let rows = fs::read_to_string(golden_path("rows.jsonl")).unwrap();
    fs::write(folder.path().join("some.jsonl"), format!("{rows}{}", "what\n".repeat(300))).unwrap();
    let ran = allocanary(folder.path(), words("report some.jsonl"));
    assert_eq!((ran.code, ran.out.matches(": not a row: ").count()), (Some(0), 20), "{}", ran.out);
    assert!(ran.out.contains("some.jsonl: 280 more lines are no rows"), "{}", ran.out);
    let csv = allocanary(folder.path(), words("report some.jsonl --format csv"));
    assert!(csv.out.starts_with("workload,") && !csv.out.contains("some.jsonl"), "{}", csv.out);
    assert_eq!(csv.err.matches(": not a row: ").count(), 20, "CSV has no place for them: {}", csv.err);
}

#[test]
fn an_endless_stream_of_bad_lines_ends() {
    let folder = tempdir().unwrap();
    let mut report = command(folder.path());
    report.args(["report", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut report = report.spawn().unwrap();
    let mut input = report.stdin.take().unwrap();
    // Until the reader has ended.
    while input.write_all(b"what\n\n").is_ok() {}
    let ran: Ran = report.finish().unwrap().into();
    refused(&ran, &["standard input: not a file of rows: 1000 of 1000 lines are none: standard input:1: "]);
}

#[test]
fn what_is_empty_or_leads_nowhere_is_refused() {
    let folder = tempdir().unwrap();
    fs::create_dir(folder.path().join("bare")).unwrap();
    fs::copy(golden_path("rows.jsonl"), folder.path().join("alone.jsonl")).unwrap();
    fs::write(folder.path().join("none.toml"), "candidates = ['system']\nworkloads = []\n").unwrap();
    for (line, said) in [
        ("study none.toml", "workloads: wanted at least one, such as `server`, found none"),
        ("study --cells nowhere", "nowhere: looking for cells (--cells): No such file"),
        ("study --cells bare", "--cells bare: wanted a folder with cells (cell-NAME), found none in it"),
        ("list --cells nowhere", "nowhere: looking for cells (--cells): No such file"),
        ("report bare", "bare: a folder without rows: wanted samples.jsonl in it"),
        ("study --resume --out-dir gone", "--resume: gone: no such folder or file"),
        ("study --resume --out-dir bare", "--resume: bare: there is no study.toml"),
        ("study --resume --output alone.jsonl", "--resume: alone.jsonl: there is no study.toml next to those rows"),
    ] {
        refused(&allocanary(folder.path(), words(line)), &[said]);
    }
    assert!(!folder.path().join("allocanary-out").exists() && !folder.path().join("gone").exists());
}

#[test]
fn a_text_that_cannot_be_written_is_an_error() {
    let folder = tempdir().unwrap();
    for line in ["--help", "--version", "study --help", "help study"] {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let ran: Ran = command(folder.path())
            .args(words(line))
            .stdout(full)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
            .finish()
            .unwrap()
            .into();
        assert_eq!(ran.code, Some(2), "{line}");
        assert!(ran.err.starts_with("allocanary: standard output: writing: No space left"), "{line}: {}", ran.err);
        assert_eq!(allocanary(folder.path(), words(line)).code, Some(0), "{line}");
    }
    assert_eq!(allocanary(folder.path(), ["--no-such-flag"]).code, Some(2));
}

fn tiny(out: &str) -> String {
    format!("study --candidates system --threads 1 --repeats 1 --workloads {TINY} --out-dir {out}")
}

/// Whether the text has the path of the cell before the limit that was reached.
fn names_the_cell(said: &str) -> bool {
    let ways = ["/cell-system: could not start: ", "/cell-system could not be started: "];
    said.lines().any(|line| ways.iter().any(|way| line.contains(way)) && line.contains("is reached"))
}

#[test]
fn a_limit_of_open_files_is_named() {
    let folder = tempdir().unwrap();
    let mut told = 0;
    for files in 6..=10 {
        let ran = limited(folder.path(), &format!("ulimit -n {files}"), &tiny(&format!("out{files}")));
        if ran.code == Some(0) {
            continue;
        }
        told += 1;
        let said = ran.out + &ran.err;
        assert!(said.contains("the limit of open files is reached: raise `ulimit -n`"), "{files}: {said}");
        assert!(!said.contains("cargo install"), "{files}: {said}");
        assert!(names_the_cell(&said), "{files}: {said}");
    }
    assert!(told > 0, "6 files are not enough");
}

#[test]
fn a_limit_of_processes_is_named() {
    // Root has no such limit. Another user must reach the command, but not be able to write next to it, and have a folder to write to.
    let (programs, folder) = (tempdir().unwrap(), tempdir().unwrap());
    fs::set_permissions(&programs, Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
    for file in [Path::new(env!("CARGO_BIN_EXE_allocanary")), &program("system")] {
        copy_program(file, programs.path());
    }
    // The limit counts all processes of a user, including those of the last run that the kernel is still ending. So each run has
    // its own user, even if this test runs twice at the same time.
    let run = |user: u32, limit: &str, arguments: &str| -> Ran {
        let user = 1_000_000 + std::process::id() * 8 + user;
        let (user, group) = (format!("--reuid={user}"), format!("--regid={user}"));
        let mut command = Command::new("prlimit");
        // Without cargo's variables: the command would build the cells.
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.args([&format!("--nproc={limit}"), "setpriv", &user, &group, "--clear-groups"]);
        command.arg(programs.path().join("allocanary")).args(words(arguments)).current_dir(&folder);
        let failed = |error: std::io::Error| Ran { code: None, out: String::new(), err: error.to_string() };
        command.finish().map_or_else(failed, Ran::from)
    };
    let able = run(0, "1000", &tiny("free"));
    if able.code != Some(0) {
        return skipped(able.err);
    }
    // One process for the command, one for the cell, and the threads that read its pipes.
    for limit in 1..=4 {
        let ran = run(limit, &limit.to_string(), &tiny(&format!("out{limit}")));
        assert!(matches!(ran.code, Some(1 | 2)), "{limit}: {ran:?}");
        let said = ran.out + &ran.err;
        assert!(said.contains("the limit of processes and threads is reached: raise `ulimit -u`"), "{limit}: {said}");
        assert!(!said.contains("panicked") && !said.contains("cargo install"), "{limit}: {said}");
        assert!(names_the_cell(&said), "{limit}: {said}");
    }
    // Reading rows takes threads, too. They are the first user's, whose processes are long gone.
    let rows = run(0, "1", "report free");
    let said = "the limit of processes and threads is reached";
    assert!(rows.code == Some(2) && rows.err.contains(said) && !rows.err.contains("panicked"), "{rows:?}");
}

#[test]
fn a_cell_that_is_removed_is_named() {
    let folder = fake::folder();
    let cell = folder.path().join("cell-fake");
    let text = fs::read_to_string(&cell).unwrap();
    assert!(text.contains("cell=$(cat)\n"));
    script(&cell, &text.replace("cell=$(cat)\n", "cell=$(cat)\nrm -f cell-fake\n"));
    let ran = super::support::study(folder.path(), "--cells . --candidates fake --workloads work --repeats 2");
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let rows = samples(&folder.path().join("out"));
    assert_eq!(rows[0].error, None);
    let said = &rows[1].error.as_ref().unwrap().text;
    assert!(said.contains("/cell-fake could not be started: No such file"), "{said}");
    assert!(said.ends_with("the cell was removed or moved: build or install it again"), "{said}");
    assert!(ran.err.contains(said.as_str()), "told at once, without a terminal too: {}", ran.err);
}

#[test]
fn a_budget_that_is_used_up_is_told() {
    let folder = fake::folder();
    // Shorter than a process takes on any machine. The tests of the session show which cells a budget ends, and when.
    let line = "study --cells . --workloads work --candidates fake fake:mode=good --threads 1,2,3 --repeats 20 --time-budget 1us --out-dir out";
    let ran = allocanary(folder.path(), words(line));
    assert_eq!((ran.code, samples(&folder.path().join("out")).len()), (Some(0), 6), "{ran:?}");
    assert!(ran.err.contains("the time budget is used up: 114 of 120 processes were not run"), "{}", ran.err);
    let last = ran.err.trim_end().lines().last().unwrap_or_default();
    assert_eq!(last, "114 processes are left; finish with `allocanary study --resume --out-dir out`");
}
